"""The proof that comes before the word "searchable"."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import IndexDamaged
from readahead_retrieval.index.analysis import terms
from readahead_retrieval.index.generation import Generation
from readahead_retrieval.owners import Owners
from readahead_retrieval.store import chunks
from readahead_retrieval.store.chunks import IndexedChunk
from readahead_retrieval.store.codec import decode_vectors

SAME_TEXT_COSINE = 0.99
ROUNDING = 0.01
"""Of cosines by vectors that an index keeps in bytes."""


async def prove(session: AsyncSession, generation: Generation, wanted: Owners, new: Sequence[str]) -> None:
    """Counts, compares whose each passage is, and asks each engine for a passage of each new document.

    Raises:
        IndexDamaged: when the chunks that are wanted, the vectors and the lexical entries are not as many, a passage
            stands for another document's, or a new document is not found by its own words.
    """
    expected = len(wanted.ids)
    found = (generation.manifest.chunks, generation.dense.count, generation.lexical.count)
    if found != (expected, expected, expected):
        raise IndexDamaged(f"{expected} chunks became {found} (written, vectors, entries).")
    if not await asyncio.to_thread(lambda: generation.owners().equals(wanted)):
        raise IndexDamaged("Passages were indexed as those of other documents.")
    for document_id in new:
        probe = await chunks.middle(session, document_id)
        if not await asyncio.to_thread(_finds, generation, probe):
            raise IndexDamaged(f"Document {document_id} was indexed and is not found.")


def _finds(generation: Generation, probe: IndexedChunk) -> bool:
    vector = decode_vectors([probe.vector], generation.manifest.dimension)[0]
    nearest = generation.dense.search(vector, 1)
    # Another document may hold the very same passage, and be found first; then both are equally near.
    own = generation.dense.similarities(vector, [probe.id])[0]
    if not nearest or own < SAME_TEXT_COSINE or nearest[0].score > own + ROUNDING:
        return False
    matches = generation.lexical.search(probe.text, 1, [probe.document_id])
    return bool(matches) or not terms(probe.text)
