"""Chunks for people to look at, and to take out of answers where one misleads."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_retrieval.boxes import Line
from readahead_retrieval.ingest.changes import Changes
from readahead_retrieval.store import chunks, documents, passages
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import ChunkView


class Chunks:
    """As in `Library`, what is not the tenant's raises `NotFound`."""

    def __init__(self, database: Database, changes: Changes) -> None:
        self._database = database
        self._changes = changes

    async def list(self, tenant: str, document_id: str) -> Sequence[ChunkView]:
        """In reading order."""
        async with self._database.reading() as session:
            await documents.get(session, tenant, document_id)
            return await chunks.view(session, document_id)

    async def get(self, tenant: str, document_id: str, chunk_id: int) -> ChunkView:
        async with self._database.reading() as session:
            await documents.get(session, tenant, document_id)
            return await chunks.view_one(session, document_id, chunk_id)

    async def lines(self, tenant: str, chunk_ids: Sequence[int]) -> dict[int, tuple[Line, ...]]:
        """Where passages stand, by chunk; those that are not the tenant's, or are gone, are left out."""
        async with self._database.reading() as session:
            return await passages.load_lines(session, tenant, chunk_ids)

    async def set_disabled(self, tenant: str, document_id: str, chunk_id: int, *, disabled: bool) -> ChunkView:
        """A disabled chunk is found by no search from this moment on, and packs that hold it are stale."""
        async with self._database.writing() as session:
            await documents.get(session, tenant, document_id)
            if (await chunks.view_one(session, document_id, chunk_id)).disabled != disabled:
                await chunks.set_disabled(session, chunk_id, disabled=disabled)
                await documents.text_changed(session, document_id)
            changed = await chunks.view_one(session, document_id, chunk_id)
        self._changes.removed(tenant)
        return changed
