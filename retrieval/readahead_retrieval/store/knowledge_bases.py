"""Knowledge bases, seen by one tenant."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import AlreadyExists, NotFound
from readahead_retrieval.store.models import AttachmentRow, DocumentRow, FileRow, KnowledgeBaseRow, utc_now
from readahead_retrieval.store.names import clean_kb_name, new_id
from readahead_retrieval.types import DocumentState, FileCounts, KnowledgeBase

FINISHED = (DocumentState.SEARCHABLE, DocumentState.FAILED, DocumentState.CANCELLED)


async def create(
    session: AsyncSession,
    tenant: str,
    name: str,
    *,
    allow_same_name: bool,
    metadata: Mapping[str, str],
    expires_after_days: int | None,
) -> KnowledgeBase:
    """Raises `AlreadyExists` and `InvalidName`."""
    name, now = clean_kb_name(name), utc_now()
    if not allow_same_name and await _named(session, tenant, name):
        raise AlreadyExists(f"A knowledge base {name!r} exists already.")
    row = KnowledgeBaseRow(
        id=new_id("vs_"),
        tenant=tenant,
        name=name,
        created_at=now,
        details=dict(metadata),
        expires_after_days=expires_after_days,
        last_active_at=now,
    )
    session.add(row)
    await session.flush()
    return await get(session, tenant, row.id)


async def list_all(session: AsyncSession, tenant: str) -> list[KnowledgeBase]:
    """Oldest first."""
    return await _load(session, tenant)


async def get(session: AsyncSession, tenant: str, name_or_id: str) -> KnowledgeBase:
    """An id wins over another knowledge base that was given an id for its name; the oldest over others of its name."""
    name = unicodedata.normalize("NFC", name_or_id)
    found = await _load(session, tenant, or_(KnowledgeBaseRow.id == name, KnowledgeBaseRow.name == name))
    if not found:
        raise NotFound("knowledge base", name_or_id)
    return next((kb for kb in found if kb.id == name), found[0])


async def change(session: AsyncSession, kb_id: str, values: Mapping[str, Any]) -> None:
    """Sets `name`, `metadata` and `expires_after_days`, those that are given. Raises `InvalidName`."""
    columns = {"details" if key == "metadata" else key: value for key, value in values.items()}
    if "name" in columns:
        columns["name"] = clean_kb_name(columns["name"])
    if columns:
        await session.execute(update(KnowledgeBaseRow).where(KnowledgeBaseRow.id == kb_id).values(columns))


async def touch(session: AsyncSession, kb_id: str) -> None:
    """It was used just now."""
    await session.execute(update(KnowledgeBaseRow).where(KnowledgeBaseRow.id == kb_id).values(last_active_at=utc_now()))


async def tenant(session: AsyncSession, kb_id: str) -> str:
    """For the workers, which serve every tenant."""
    return (await session.scalars(select(KnowledgeBaseRow.tenant).where(KnowledgeBaseRow.id == kb_id))).one()


async def remove(session: AsyncSession, kb_id: str) -> None:
    """With all that belongs to it."""
    await session.execute(delete(KnowledgeBaseRow).where(KnowledgeBaseRow.id == kb_id))


def counts_by_state(states: Mapping[str, int]) -> FileCounts:
    """From how many files stand in each state."""
    return FileCounts(
        in_progress=sum(count for state, count in states.items() if state not in FINISHED),
        completed=states.get(DocumentState.SEARCHABLE, 0),
        failed=states.get(DocumentState.FAILED, 0),
        cancelled=states.get(DocumentState.CANCELLED, 0),
    )


async def _named(session: AsyncSession, tenant: str, name: str) -> bool:
    statement = select(KnowledgeBaseRow.id).where(KnowledgeBaseRow.tenant == tenant, KnowledgeBaseRow.name == name)
    return await session.scalar(statement.limit(1)) is not None


async def _load(session: AsyncSession, tenant: str, chosen: ColumnElement[bool] | None = None) -> list[KnowledgeBase]:
    """Oldest first, in three statements however many they are."""
    mine = KnowledgeBaseRow.tenant == tenant
    mine = mine if chosen is None else mine & chosen
    ordered = select(KnowledgeBaseRow).where(mine).order_by(KnowledgeBaseRow.created_at, KnowledgeBaseRow.id)
    rows = list(await session.scalars(ordered))
    documents = await _documents(session, mine)
    files = await _files(session, mine)
    owners = await _owners(session, tenant, rows)
    return [
        _kb(row, documents.get(row.id, (0, 0, 0)), counts_by_state(files.get(row.id, {})), row.id in owners)
        for row in rows
    ]


async def _documents(session: AsyncSession, mine: ColumnElement[bool]) -> dict[str, tuple[int, int, int]]:
    """By knowledge base: documents, searchable ones, bytes."""
    searchable = func.sum(case((DocumentRow.state == DocumentState.SEARCHABLE, 1), else_=0))
    statement = (
        select(DocumentRow.kb_id, func.count(DocumentRow.id), searchable, func.coalesce(func.sum(FileRow.bytes), 0))
        .join(KnowledgeBaseRow, KnowledgeBaseRow.id == DocumentRow.kb_id)
        .join(FileRow, FileRow.id == DocumentRow.file_id)
        .where(mine, DocumentRow.rereads.is_(None))
        .group_by(DocumentRow.kb_id)
    )
    rows = await session.execute(statement)
    return {kb_id: (count, int(found), int(size)) for kb_id, count, found, size in rows}


async def _files(session: AsyncSession, mine: ColumnElement[bool]) -> dict[str, dict[str, int]]:
    """By knowledge base: how many files stand in each state."""
    statement = (
        select(AttachmentRow.kb_id, DocumentRow.state, func.count())
        .join(DocumentRow, DocumentRow.id == AttachmentRow.document_id)
        .join(KnowledgeBaseRow, KnowledgeBaseRow.id == AttachmentRow.kb_id)
        .where(mine)
        .group_by(AttachmentRow.kb_id, DocumentRow.state)
    )
    counted: dict[str, dict[str, int]] = {}
    for kb_id, state, count in await session.execute(statement):
        counted.setdefault(kb_id, {})[state] = count
    return counted


async def _owners(session: AsyncSession, tenant: str, rows: Sequence[KnowledgeBaseRow]) -> set[str]:
    """Those among the rows that are the oldest of their names."""
    names = {row.name for row in rows}
    columns = (KnowledgeBaseRow.id, KnowledgeBaseRow.name, KnowledgeBaseRow.created_at)
    statement = select(*columns).where(KnowledgeBaseRow.tenant == tenant)
    if len(names) == 1:  # one is asked for; else all are there anyway
        statement = statement.where(KnowledgeBaseRow.name.in_(names))
    oldest: dict[str, tuple[datetime, str]] = {}
    for kb_id, name, created in await session.execute(statement):
        oldest[name] = min(oldest.get(name, (created, kb_id)), (created, kb_id))
    return {kb_id for _, kb_id in oldest.values()}


def _kb(row: KnowledgeBaseRow, documents: tuple[int, int, int], files: FileCounts, owns_name: bool) -> KnowledgeBase:
    count, searchable, size = documents
    return KnowledgeBase(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        created_at=row.created_at,
        documents=count,
        searchable=searchable,
        bytes=size,
        files=files,
        metadata=row.details,
        last_active_at=row.last_active_at,
        expires_after_days=row.expires_after_days,
        owns_name=owns_name,
    )
