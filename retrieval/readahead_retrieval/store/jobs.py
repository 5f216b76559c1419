"""Ingestion jobs: durable rows, so that nothing that was accepted is forgotten by a crash."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store.models import DocumentRow, JobRow, utc_now

LEASE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job as the worker that has it sees it."""

    document_id: str
    kb_id: str
    attempts: int
    """Starts so far, this one counted."""


async def enqueue(session: AsyncSession, document_id: str) -> None:
    session.add(JobRow(document_id=document_id, state="queued", attempts=0, created_at=utc_now()))
    await session.flush()


async def claim(session: AsyncSession, held: Collection[str] = (), lease: timedelta = LEASE) -> Claimed | None:
    """Takes the oldest job that waits, or whose worker let its lease run out; None when there is none.

    Args:
        held: Documents that whoever asks has in hand: a lease that could not be renewed, as on a full disk, does not
            make them anybody else's.
    """
    now = utc_now()
    free = or_(JobRow.state == "queued", JobRow.lease_until < now)
    statement = (
        select(JobRow)
        .where(free, JobRow.document_id.not_in(held))
        .order_by(JobRow.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = await session.scalar(statement)
    if row is None:
        return None
    row.state, row.attempts, row.lease_until = "running", row.attempts + 1, now + lease
    taken = update(DocumentRow).where(DocumentRow.id == row.document_id).values(started_at=now)
    kb_id = await session.scalar(taken.returning(DocumentRow.kb_id))
    assert kb_id is not None, "a job goes with its document"
    return Claimed(row.document_id, kb_id, row.attempts)


async def renew(session: AsyncSession, document_id: str, lease: timedelta = LEASE) -> None:
    """The heartbeat of a worker that is at it."""
    await session.execute(update(JobRow).where(JobRow.document_id == document_id).values(lease_until=utc_now() + lease))


async def progressed(session: AsyncSession, document_id: str) -> None:
    """Something was committed: starting again from here is no repeated failure."""
    await session.execute(update(JobRow).where(JobRow.document_id == document_id).values(attempts=0))


async def finish(session: AsyncSession, document_id: str) -> None:
    await session.execute(delete(JobRow).where(JobRow.document_id == document_id))


async def release_all(session: AsyncSession) -> None:
    """Puts interrupted jobs back; for the one process that owns the home, before its workers start."""
    await session.execute(update(JobRow).where(JobRow.state == "running").values(state="queued", lease_until=None))


async def positions(session: AsyncSession, document_ids: Sequence[str] | None = None) -> dict[str, int]:
    """Places in the queue of those that wait, 1 for the next, among the jobs of everybody."""
    place = func.row_number().over(order_by=JobRow.id).label("place")
    queue = select(JobRow.document_id, place).where(JobRow.state == "queued").subquery()
    statement = select(queue.c.document_id, queue.c.place)
    if document_ids is not None:
        statement = statement.where(queue.c.document_id.in_(document_ids))
    return {document_id: int(position) for document_id, position in await session.execute(statement)}


async def any_of(session: AsyncSession, document_id: str) -> bool:
    """Whether the document has one."""
    return bool(await session.scalar(select(exists().where(JobRow.document_id == document_id))))


async def any_for(session: AsyncSession, kb_id: str) -> bool:
    """Whether documents of the knowledge base are still on their way to the index."""
    statement = select(exists().where(JobRow.document_id == DocumentRow.id, DocumentRow.kb_id == kb_id))
    return bool(await session.scalar(statement))
