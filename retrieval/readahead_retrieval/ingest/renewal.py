"""Brings documents to the embedding model and the size of chunks that the settings name now.

Each is cut and embedded anew beside itself, from the pages that were read, and answers meanwhile as it was.
"""

from __future__ import annotations

from sqlalchemy import and_, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.ingest.cut import Cut
from readahead_retrieval.store import documents, jobs, rereads
from readahead_retrieval.store.models import DocumentRow, JobRow
from readahead_retrieval.types import DocumentState

SLICE = 500
"""Rows that are taken from the database at a time."""


async def renew(session: AsyncSession, model: str, cut: Cut) -> None:
    """Queues whatever is not as `model` and `cut` would make it; for a start, before there are workers."""
    for document_id in await _left_behind(session, model):
        await documents.requeue(session, document_id)
        await jobs.enqueue(session, document_id)
    due = await _due(session, model, cut)
    for start in range(0, len(due), SLICE):
        batch = DocumentRow.id.in_(due[start : start + SLICE])
        for row in (await session.scalars(select(DocumentRow).where(batch))).all():
            await rereads.drop_of(session, row.id)
            reading = await rereads.begin_from_pages(session, row)
            await jobs.enqueue(session, reading.id)


async def _left_behind(session: AsyncSession, model: str) -> list[str]:
    """What waits for an index that another model's vectors are no part of, and what may succeed now: new readings that
    failed, and documents that answer still."""
    unfit = and_(DocumentRow.state == DocumentState.INDEXING, DocumentRow.embedding_model != model)
    serving = or_(DocumentRow.rereads.is_not(None), DocumentRow.published)
    failed = and_(DocumentRow.state == DocumentState.FAILED, DocumentRow.error_retryable, serving)
    queued = exists().where(JobRow.document_id == DocumentRow.id)
    return list(await session.scalars(select(DocumentRow.id).where(or_(unfit, failed), ~queued)))


async def _due(session: AsyncSession, model: str, cut: Cut) -> list[str]:
    """Searchable documents that another model embedded, or that were cut otherwise, and that have no new reading, or
    one whose file is at fault."""
    at_fault = and_(DocumentRow.state == DocumentState.FAILED, ~DocumentRow.error_retryable, ~DocumentRow.shares_pages)
    underway = select(DocumentRow.rereads).where(DocumentRow.rereads.is_not(None), ~at_fault)
    usual = cut.mark(None, None)
    chosen = and_(
        DocumentRow.state == DocumentState.SEARCHABLE,
        DocumentRow.rereads.is_(None),
        or_(
            DocumentRow.embedding_model != model,
            DocumentRow.cut != usual,  # not those without one: they are older than that it is kept
        ),
        DocumentRow.id.not_in(underway),
    )
    columns = (
        DocumentRow.id,
        DocumentRow.embedding_model,
        DocumentRow.cut,
        DocumentRow.chunk_tokens,
        DocumentRow.chunk_overlap_tokens,
    )
    found = await session.execute(select(*columns).where(chosen).order_by(DocumentRow.created_at, DocumentRow.id))
    return [
        document_id
        for document_id, embedded_by, was_cut, asked, overlap in found.all()
        if embedded_by != model or was_cut != cut.mark(asked, overlap)
    ]
