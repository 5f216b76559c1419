"""`searchable` is proved: a document that an index does not hold, or does not find, never bears the word."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import EmptyKnowledgeBase
from readahead_retrieval.store import index_changes
from readahead_retrieval.store.chunks import IndexedChunk
from readahead_retrieval.store.codec import encode_vector
from readahead_retrieval.types import DocumentState
from tests.retrieval.library_parts import DIMENSION, TENANT, add, opened


def without_the_last(chunks: list[IndexedChunk]) -> list[IndexedChunk]:
    return chunks[:-1]


def under_other_vectors(chunks: list[IndexedChunk]) -> list[IndexedChunk]:
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[0] = 1
    return [replace(chunk, vector=encode_vector(vector)) for chunk in chunks]


def under_other_words(chunks: list[IndexedChunk]) -> list[IndexedChunk]:
    return [replace(chunk, text="lorem ipsum") for chunk in chunks]


@pytest.mark.parametrize("spoilt", [without_the_last, under_other_vectors, under_other_words])
async def test_a_document_that_its_index_does_not_hold_as_it_is_fails(
    tmp_path: Path,
    handbook: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoilt: Callable[[list[IndexedChunk]], list[IndexedChunk]],
) -> None:
    load = index_changes.load

    async def loaded(session: AsyncSession, ids: Sequence[int]) -> AsyncIterator[list[IndexedChunk]]:
        async for batch in load(session, ids):
            yield spoilt(batch)

    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        monkeypatch.setattr(index_changes, "load", loaded)
        failed = await add(library, "k", handbook)
        assert (failed.state, failed.error_code) == (DocumentState.FAILED, "internal")
        assert "index" in (failed.error_message or "")
        with pytest.raises(EmptyKnowledgeBase):
            await library.search(TENANT, "k", "hotel nights")
        monkeypatch.undo()
        await library.jobs.retry(TENANT, failed.id.replace("doc_", "job_"))
        async for document in library.watch(TENANT, failed.id):
            last = document.state
        assert last is DocumentState.SEARCHABLE
