"""What a knowledge base's index lacks, and what it holds too much."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.owners import Owners, joined, owners_of
from readahead_retrieval.store.chunks import IndexedChunk, known_as, under_heading
from readahead_retrieval.store.documents import belongs_in_index
from readahead_retrieval.store.models import ChunkRow, DocumentRow

LOADED = 200
"""Chunks with text and vector that pass through the event loop at a time."""
PARTITION = 5_000
"""Ids that are taken from the database at a time: some milliseconds of the event loop."""


async def wanted(session: AsyncSession, kb_id: str, model: str) -> Owners:
    """Every chunk that belongs in the index, with the document that the index is to name for it."""
    statement = select(ChunkRow.id, known_as()).join(DocumentRow).where(belongs_in_index(kb_id, model))
    rows = await session.stream(statement.order_by(ChunkRow.id))
    return joined(
        [owners_of((chunk, document) for chunk, document in part) async for part in rows.partitions(PARTITION)]
    )


async def load(session: AsyncSession, ids: Sequence[int]) -> AsyncIterator[list[IndexedChunk]]:
    """The chunks of these ids, each embedded, `LOADED` at a time."""
    columns = select(ChunkRow.id, known_as(), ChunkRow.heading, ChunkRow.text, ChunkRow.vector).join(DocumentRow)
    for start in range(0, len(ids), LOADED):
        statement = columns.where(ChunkRow.id.in_(ids[start : start + LOADED]))
        rows = await session.execute(statement.order_by(ChunkRow.id))
        yield [IndexedChunk(i, d, under_heading(heading, text), v) for i, d, heading, text, v in rows if v is not None]
