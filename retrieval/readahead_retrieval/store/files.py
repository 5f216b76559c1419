"""Uploaded files, seen by one tenant. The bytes are in blobs.py."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import NotFound
from readahead_retrieval.store.blobs import SavedBytes
from readahead_retrieval.store.models import FileRow, utc_now
from readahead_retrieval.types import StoredFile


async def add(
    session: AsyncSession, tenant: str, file_id: str, name: str, purpose: str, saved: SavedBytes
) -> StoredFile:
    row = FileRow(
        id=file_id,
        tenant=tenant,
        name=name,
        bytes=saved.size,
        sha256=saved.sha256,
        purpose=purpose,
        created_at=utc_now(),
    )
    session.add(row)
    await session.flush()
    return _stored(row)


async def list_all(session: AsyncSession, tenant: str) -> list[StoredFile]:
    """Oldest first."""
    statement = select(FileRow).where(FileRow.tenant == tenant).order_by(FileRow.created_at, FileRow.id)
    return [_stored(row) for row in await session.scalars(statement)]


async def get(session: AsyncSession, tenant: str, file_id: str) -> StoredFile:
    row = await session.get(FileRow, file_id)
    if row is None or row.tenant != tenant:
        raise NotFound("file", file_id)
    return _stored(row)


async def remove(session: AsyncSession, file_id: str) -> None:
    """With the documents made from it: what is deleted must not answer any more."""
    await session.execute(delete(FileRow).where(FileRow.id == file_id))


def _stored(row: FileRow) -> StoredFile:
    return StoredFile(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        bytes=row.bytes,
        sha256=row.sha256,
        purpose=row.purpose,
        created_at=row.created_at,
    )
