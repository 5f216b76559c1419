"""Uploaded files: kept as they came, whatever becomes of them in knowledge bases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.store import attachments, files
from readahead_retrieval.store.blobs import Blobs
from readahead_retrieval.store.names import clean_file_name, new_id
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import StoredFile


class Files:
    """As in `Library`, what is not the tenant's raises `NotFound`."""

    def __init__(self, database: Database, blobs: Blobs, ingestion: Ingestion) -> None:
        self._database = database
        self._blobs = blobs
        self._ingestion = ingestion

    async def save(self, tenant: str, name: str, data: AsyncIterator[bytes], purpose: str = "assistants") -> StoredFile:
        """Streams to disk. Raises `DocumentError` (`too_large`), `InvalidName` and `StorageFull`."""
        name = clean_file_name(name)
        file_id = new_id("file-")
        saved = await self._blobs.save(tenant, file_id, data)
        try:
            async with self._database.writing() as session:
                file = await files.add(session, tenant, file_id, name, purpose, saved)
                twin = await files.twin(session, file)
        except BaseException:  # bytes without a row would never be deleted
            await self._blobs.delete(tenant, file_id)
            raise
        if twin is not None:
            await self._blobs.share(tenant, file_id, twin)
        return file

    async def list(self, tenant: str) -> list[StoredFile]:
        """Oldest first."""
        async with self._database.reading() as session:
            return await files.list_all(session, tenant)

    async def get(self, tenant: str, file_id: str) -> StoredFile:
        async with self._database.reading() as session:
            return await files.get(session, tenant, file_id)

    async def path(self, tenant: str, file_id: str) -> Path:
        """Where the bytes are, to be read and never written."""
        await self.get(tenant, file_id)
        return self._blobs.path(tenant, file_id)

    async def delete(self, tenant: str, file_id: str) -> None:
        """With every document made from it and from no other: what is deleted answers no more."""
        async with self._database.writing() as session:
            await files.get(session, tenant, file_id)
            gone = await attachments.detach(session, tenant, await attachments.of_file(session, file_id))
            await files.remove(session, file_id)
        for row in gone:
            await self._ingestion.removed(tenant, row.kb_id, row.id)
        await self._blobs.delete(tenant, file_id)
