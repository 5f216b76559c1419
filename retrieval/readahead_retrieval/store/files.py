"""Uploaded files, seen by one tenant. The bytes are in blobs.py."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import NotFound
from readahead_retrieval.store.blobs import SavedBytes
from readahead_retrieval.store.models import FileRow, utc_now
from readahead_retrieval.types import StoredFile

ID_BATCH = 500


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


async def find(session: AsyncSession, tenant: str, file_ids: Sequence[str]) -> list[StoredFile]:
    """In the order of the ids; raises `NotFound` for the first that is not there."""
    found: dict[str, StoredFile] = {}
    for start in range(0, len(file_ids), ID_BATCH):
        chosen = FileRow.id.in_(file_ids[start : start + ID_BATCH])
        rows = await session.scalars(select(FileRow).where(FileRow.tenant == tenant, chosen))
        found.update((row.id, _stored(row)) for row in rows)
    missing = next((file_id for file_id in file_ids if file_id not in found), None)
    if missing is not None:
        raise NotFound("file", missing)
    return [found[file_id] for file_id in file_ids]


async def twin(session: AsyncSession, file: StoredFile) -> str | None:
    """Another file of the tenant with the same bytes."""
    same = (FileRow.tenant == file.tenant) & (FileRow.sha256 == file.sha256) & (FileRow.id != file.id)
    return await session.scalar(select(FileRow.id).where(same).limit(1))


async def remove(session: AsyncSession, file_id: str) -> None:
    """With its attachments; whoever calls has seen to the documents made from it."""
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
