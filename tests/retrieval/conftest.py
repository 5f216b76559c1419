"""Parts that are slow to make, made once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont

from readahead_retrieval.embedders.local import LocalEmbedder
from tests.retrieval import pdf_samples as samples


@pytest.fixture(scope="session")
def minilm(minilm_path: Path) -> Iterator[LocalEmbedder]:
    """all-MiniLM-L6-v2 in this process."""
    embedder = asyncio.run(LocalEmbedder.load(minilm_path))
    yield embedder
    embedder.close()


@pytest.fixture(scope="session")
def korean_font() -> str:
    """Made known to reportlab; named, not embedded, as office programs do it for the fonts of the reader."""
    pdfmetrics.registerFont(UnicodeCIDFont("HYSMyeongJo-Medium"))
    return "HYSMyeongJo-Medium"


@pytest.fixture(scope="session")
def handbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pages, each on a matter of its own."""
    return samples.write_pdf(
        tmp_path_factory.mktemp("handbook") / "handbook.pdf",
        samples.lines(
            "Every employee has 25 days of paid annual leave in a calendar year.",
            "Leave that is not taken by the end of March of the next year is lost.",
        ),
        samples.lines(
            "Hotels are paid up to 140 euros for each night, breakfast included.",
            "Journeys of less than four hours are made by train, not by plane.",
        ),
        samples.lines(
            "Laptops are replaced after 48 months, or earlier when they break.",
            "The help desk in Building C hands out screens and keyboards.",
        ),
    )
