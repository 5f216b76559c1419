"""Knowledge bases, seen by one tenant."""

from __future__ import annotations

import unicodedata

from sqlalchemy import Select, case, delete, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import AlreadyExists, NotFound
from readahead_retrieval.store.models import DocumentRow, FileRow, KnowledgeBaseRow, utc_now
from readahead_retrieval.store.names import clean_kb_name, new_id
from readahead_retrieval.types import DocumentState, KnowledgeBase


async def create(session: AsyncSession, tenant: str, name: str) -> KnowledgeBase:
    row = KnowledgeBaseRow(id=new_id("vs_"), tenant=tenant, name=clean_kb_name(name), created_at=utc_now())
    session.add(row)
    try:
        await session.flush()
    except IntegrityError as error:
        raise AlreadyExists(f"A knowledge base {row.name!r} exists already.") from error
    return _with_counts(row, 0, 0, 0)


async def list_all(session: AsyncSession, tenant: str) -> list[KnowledgeBase]:
    """Oldest first."""
    statement = _counted().where(KnowledgeBaseRow.tenant == tenant)
    statement = statement.order_by(KnowledgeBaseRow.created_at, KnowledgeBaseRow.id)
    return [_with_counts(*row) for row in await session.execute(statement)]


async def get(session: AsyncSession, tenant: str, name_or_id: str) -> KnowledgeBase:
    name = unicodedata.normalize("NFC", name_or_id)
    named = or_(KnowledgeBaseRow.id == name, KnowledgeBaseRow.name == name)
    statement = _counted().where(KnowledgeBaseRow.tenant == tenant, named)
    # An id wins over another knowledge base that was given an id for its name.
    rows = (await session.execute(statement)).all()
    if not rows:
        raise NotFound("knowledge base", name_or_id)
    return _with_counts(*max(rows, key=lambda row: row[0].id == name_or_id))


async def remove(session: AsyncSession, kb_id: str) -> None:
    """With all that belongs to it."""
    await session.execute(delete(KnowledgeBaseRow).where(KnowledgeBaseRow.id == kb_id))


def _counted() -> Select[KnowledgeBaseRow, int, int, int]:
    searchable = func.coalesce(func.sum(case((DocumentRow.state == DocumentState.SEARCHABLE, 1), else_=0)), 0)
    return (
        select(KnowledgeBaseRow, func.count(DocumentRow.id), searchable, func.coalesce(func.sum(FileRow.bytes), 0))
        .outerjoin(DocumentRow, DocumentRow.kb_id == KnowledgeBaseRow.id)
        .outerjoin(FileRow, FileRow.id == DocumentRow.file_id)
        .group_by(KnowledgeBaseRow.id)
    )


def _with_counts(row: KnowledgeBaseRow, documents: int, searchable: int, size: int) -> KnowledgeBase:
    return KnowledgeBase(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        created_at=row.created_at,
        documents=documents,
        searchable=int(searchable),
        bytes=int(size),
    )
