"""Texts over the embedding model's window, which a server refuses, are embedded by their beginning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead_retrieval.embedders.local import LocalEmbedder
from readahead_retrieval.embedders.windowed import WindowedEmbedder, clipped
from readahead_retrieval.tokens import EstimatedCounter, TokenizerCounter


@pytest.fixture(scope="module")
def counter(minilm_path: Path) -> TokenizerCounter:
    return TokenizerCounter.from_file(minilm_path / "tokenizer.json")


async def test_a_long_text_is_embedded_as_its_longest_beginning_within_the_window(
    minilm: LocalEmbedder, counter: TokenizerCounter
) -> None:
    windowed = WindowedEmbedder(minilm, counter)
    beginning = " ".join(["harbour"] * (minilm.max_tokens - 2))

    rows = await windowed.embed([f"{beginning} and much more about something else entirely", beginning], "passage")

    np.testing.assert_allclose(rows[0], rows[1], atol=1e-5)


@pytest.mark.parametrize("text", ["word " * 400, "도서관에서 책을 빌리는 " * 60, "12.5/" * 400])
def test_a_clipped_text_fits_and_is_no_shorter_than_it_must_be(text: str, counter: TokenizerCounter) -> None:
    kept = clipped(text, counter, 254)

    assert text.startswith(kept)
    assert 0 < counter.count(kept) <= 254
    assert len(kept) < len(text)


@given(st.text(max_size=200), st.integers(1, 40))
def test_whatever_is_clipped_fits(text: str, limit: int) -> None:
    counter = EstimatedCounter()
    kept = clipped(text, counter, limit)

    assert text.startswith(kept)
    assert counter.count(kept) <= limit
    assert kept == text or counter.count(text) > limit
