"""Chunks and their vectors: what an index is made from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.store.codec import encode_spans, encode_vector
from readahead_retrieval.store.models import ChunkRow, DocumentRow, PageRow
from readahead_retrieval.types import Chunk

INDEX_BATCH = 1000


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as a search result needs it."""

    id: int
    document_id: str
    document: str
    text: str
    heading: str
    first_page: int
    last_page: int
    page_label: str


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    id: int
    document_id: str
    text: str
    vector: bytes


async def replace(session: AsyncSession, document_id: str, chunks: Sequence[Chunk]) -> None:
    await session.execute(delete(ChunkRow).where(ChunkRow.document_id == document_id))
    await session.execute(insert(ChunkRow), [_values(document_id, i, c) for i, c in enumerate(chunks)])


async def without_vector(session: AsyncSession, document_id: str, limit: int) -> list[tuple[int, str]]:
    """Ids and texts to embed, in order."""
    statement = select(ChunkRow.id, ChunkRow.heading, ChunkRow.text)
    statement = statement.where(ChunkRow.document_id == document_id, ChunkRow.vector.is_(None))
    rows = await session.execute(statement.order_by(ChunkRow.ordinal).limit(limit))
    return [(chunk_id, under_heading(heading, text)) for chunk_id, heading, text in rows]


async def set_vectors(session: AsyncSession, ids: Sequence[int], vectors: Vectors) -> None:
    rows = [{"id": i, "vector": encode_vector(v)} for i, v in zip(ids, vectors, strict=True)]
    await session.execute(update(ChunkRow), rows)


async def clear_vectors(session: AsyncSession, document_id: str) -> None:
    await session.execute(update(ChunkRow).where(ChunkRow.document_id == document_id).values(vector=None))


async def count(session: AsyncSession, documents: Sequence[str]) -> int:
    statement = select(func.count()).where(ChunkRow.document_id.in_(documents))
    return await session.scalar(statement) or 0


async def for_index(session: AsyncSession, documents: Sequence[str]) -> AsyncIterator[list[IndexedChunk]]:
    """Every chunk of the documents by id, `INDEX_BATCH` at a time."""
    after = 0
    columns = (ChunkRow.id, ChunkRow.document_id, ChunkRow.heading, ChunkRow.text, ChunkRow.vector)
    chosen = select(*columns).where(ChunkRow.document_id.in_(documents))
    while True:
        statement = chosen.where(ChunkRow.id > after).order_by(ChunkRow.id).limit(INDEX_BATCH)
        rows = (await session.execute(statement)).all()
        if not rows:
            return
        after = rows[-1].id
        yield [IndexedChunk(r.id, r.document_id, under_heading(r.heading, r.text), r.vector) for r in rows]


async def ids_of(session: AsyncSession, documents: Sequence[str]) -> list[int]:
    return list(await session.scalars(select(ChunkRow.id).where(ChunkRow.document_id.in_(documents))))


async def find(session: AsyncSession, kb_id: str, ids: Sequence[int]) -> dict[int, StoredChunk]:
    """Those of the ids that still exist in the knowledge base."""
    return await _find(session, DocumentRow.kb_id == kb_id, ChunkRow.id.in_(ids))


async def _find(session: AsyncSession, *conditions: ColumnElement[bool]) -> dict[int, StoredChunk]:
    columns = (
        ChunkRow.id,
        ChunkRow.document_id,
        DocumentRow.name,
        ChunkRow.text,
        ChunkRow.heading,
        ChunkRow.first_page,
        ChunkRow.last_page,
        PageRow.label,
    )
    first_page = (PageRow.document_id == ChunkRow.document_id) & (PageRow.number == ChunkRow.first_page)
    statement = select(*columns).join(DocumentRow, DocumentRow.id == ChunkRow.document_id).join(PageRow, first_page)
    return {row[0]: StoredChunk(*row) for row in await session.execute(statement.where(*conditions))}


def under_heading(heading: str, text: str) -> str:
    """The text as it is embedded and indexed."""
    return f"{heading}\n{text}" if heading else text


def _values(document_id: str, ordinal: int, chunk: Chunk) -> dict[str, object]:
    return {
        "document_id": document_id,
        "ordinal": ordinal,
        "text": chunk.text,
        "heading": chunk.heading,
        "spans": encode_spans(chunk.spans),
        "first_page": chunk.first_page,
        "last_page": chunk.last_page,
    }
