"""A gateway with stand-in models, for what needs no real ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.platform.gateway import Gateway, running_gateway
from tests.retrieval import pdf_samples as samples


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path / "home") as running:
        yield running


@pytest.fixture(scope="session")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pages, each on a matter of its own."""
    return samples.write_pdf(
        tmp_path_factory.mktemp("manual") / "manual.pdf",
        samples.lines(
            "The Halden pump weighs 41 kilograms without its frame.",
            "Two people lift it by the handles, never by the cable.",
            "Before it is lifted, the frame is taken off and the valves are closed.",
        ),
        samples.lines(
            "The oil of the gearbox is changed after 600 hours of work.",
            "Use only mineral oil of class 32, about two litres of it.",
            "Old oil goes to the yard in a closed can and is never poured away.",
        ),
        samples.lines(
            "The warranty of the pump lasts 30 months from the day of delivery.",
            "Damage by frost is not covered by the warranty.",
            "Claims are sent to the office in writing, with the number of the pump.",
        ),
    )
