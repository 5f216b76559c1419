"""Which index generation of a knowledge base is current: its newest row."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store.models import ChunkRow, DocumentRow, GenerationRow, KnowledgeBaseRow, utc_now
from readahead_retrieval.types import DocumentState


@dataclass(frozen=True, slots=True)
class Published:
    name: str
    manifest_sha256: str
    chunks: int


async def current(session: AsyncSession, kb_id: str) -> Published | None:
    statement = select(GenerationRow).where(GenerationRow.kb_id == kb_id).order_by(GenerationRow.id.desc()).limit(1)
    row = await session.scalar(statement)
    return Published(row.name, row.manifest_sha256, row.chunks) if row else None


async def publish(session: AsyncSession, kb_id: str, published: Published) -> bool:
    """Makes it the current one; returns False when the knowledge base was removed meanwhile."""
    # Taking the row first keeps a removal out until this transaction ends.
    kb = await session.scalar(select(KnowledgeBaseRow.id).where(KnowledgeBaseRow.id == kb_id).with_for_update())
    if kb is None:
        return False
    await session.execute(delete(GenerationRow).where(GenerationRow.kb_id == kb_id))
    session.add(
        GenerationRow(
            kb_id=kb_id,
            name=published.name,
            manifest_sha256=published.manifest_sha256,
            chunks=published.chunks,
            created_at=utc_now(),
        )
    )
    await session.flush()
    return True


async def withdraw(session: AsyncSession, kb_id: str) -> None:
    """Leaves the knowledge base without an index: nothing of it is searchable."""
    await session.execute(delete(GenerationRow).where(GenerationRow.kb_id == kb_id))


async def stale(session: AsyncSession) -> list[str]:
    """Knowledge bases whose index is not what the database holds: to be published after a start."""
    waiting = select(DocumentRow.kb_id).where(DocumentRow.state == DocumentState.INDEXING)
    held = (
        select(DocumentRow.kb_id, func.count(ChunkRow.id).label("chunks"))
        .join(ChunkRow, ChunkRow.document_id == DocumentRow.id)
        .where(DocumentRow.published)
        .group_by(DocumentRow.kb_id)
        .subquery()
    )
    differing = (
        select(GenerationRow.kb_id)
        .outerjoin(held, held.c.kb_id == GenerationRow.kb_id)
        .where(GenerationRow.chunks != func.coalesce(held.c.chunks, 0))
    )
    return list(await session.scalars(waiting.union(differing)))


async def names(session: AsyncSession) -> dict[str, str]:
    """The current generation's folder, by knowledge base; every other folder is a left-over."""
    rows = await session.execute(select(GenerationRow.kb_id, GenerationRow.name))
    return {row.kb_id: row.name for row in rows}
