"""Files that are added to a knowledge base in one go."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_retrieval.ingest.intake import Intake, NewFile
from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.store import batches, documents, jobs, knowledge_bases
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Attachment, FileBatch


class Batches:
    """As in `Library`, what is not the tenant's raises `NotFound`, and a knowledge base is named by name or id."""

    def __init__(self, database: Database, ingestion: Ingestion, intake: Intake) -> None:
        self._database = database
        self._ingestion = ingestion
        self._intake = intake

    async def add(self, tenant: str, kb: str, new: Sequence[NewFile]) -> FileBatch:
        """Queues them all, or none where one of them does not exist."""
        return await self._intake.add_batch(tenant, kb, new)

    async def get(self, tenant: str, kb: str, batch_id: str) -> FileBatch:
        async with self._database.reading() as session:
            return await batches.get(session, (await knowledge_bases.get(session, tenant, kb)).id, batch_id)

    async def files(self, tenant: str, kb: str, batch_id: str) -> list[Attachment]:
        """Those that still are in the knowledge base, oldest first."""
        async with self._database.reading() as session:
            batch = await batches.get(session, (await knowledge_bases.get(session, tenant, kb)).id, batch_id)
            return await batches.files(session, batch.kb_id, batch_id)

    async def cancel(self, tenant: str, kb: str, batch_id: str) -> FileBatch:
        """Stops what waits or is read; what is being indexed or searchable already stays."""
        async with self._database.writing() as session:
            batch = await batches.get(session, (await knowledge_bases.get(session, tenant, kb)).id, batch_id)
            held = [attachment.document for attachment in await batches.files(session, batch.kb_id, batch_id)]
            stopped = [document.id for document in held if document.cancellable]
            for document_id in stopped:
                await documents.cancel(session, document_id)
                await jobs.finish(session, document_id)
            await batches.set_cancelled(session, batch_id)
        for document_id in stopped:
            await self._ingestion.cancelled(batch.kb_id, document_id)
        return await self.get(tenant, kb, batch_id)
