"""Takes files into knowledge bases: rows first, so that what was accepted is made even after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.store import (
    attachments,
    batches,
    chunks,
    documents,
    files,
    jobs,
    knowledge_bases,
    pages,
    rereads,
)
from readahead_retrieval.store.documents import Wish
from readahead_retrieval.store.models import DocumentRow
from readahead_retrieval.store.seal import Seal
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Attachment, Attributes, DocumentState, FileBatch, StoredFile

SLICE = 100
"""Files in one transaction: who else writes waits for it."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A stored file, and how it is to be taken into a knowledge base."""

    file_id: str
    password: str | None = None
    attributes: Attributes | None = None
    """None leaves those that it has there."""
    chunk_tokens: int | None = None
    """The largest chunk; None takes the settings', and the embedding model's window bounds it too."""
    chunk_overlap_tokens: int | None = None
    replaces: bool = False
    """Whether it takes the place of older files of its name, once it is searchable and not before."""


class Intake:
    """Adds files to knowledge bases and starts what failed anew."""

    def __init__(self, database: Database, ingestion: Ingestion, seal: Seal) -> None:
        self._database = database
        self._ingestion = ingestion
        self._seal = seal

    async def add(self, tenant: str, kb: str, new: NewFile) -> Attachment:
        """Queues the file to be read; returns at once.

        The same bytes in the same knowledge base are the same document, which is returned as it stands; one that
        failed is tried again where that may help: the failure is retryable, or a password is given.
        """
        async with self._database.writing() as session:
            kb_id = (await knowledge_bases.get(session, tenant, kb)).id
            file = await files.get(session, tenant, new.file_id)
            await self._take(session, kb_id, file, new)
            attachment = await attachments.get(session, kb_id, file.id)
        await self._ingestion.added()
        return attachment

    async def add_batch(self, tenant: str, kb: str, new: Sequence[NewFile]) -> FileBatch:
        """Queues them all, or none where one of them does not exist."""
        async with self._database.writing() as session:
            kb_id = (await knowledge_bases.get(session, tenant, kb)).id
            found = await files.find(session, tenant, [one.file_id for one in new])
            batch_id = await batches.create(session, kb_id, [file.id for file in found])
        for start in range(0, len(new), SLICE):
            async with self._database.writing() as session:
                for file, one in zip(found[start : start + SLICE], new[start : start + SLICE], strict=True):
                    await self._take(session, kb_id, file, one)
        await self._ingestion.added()
        async with self._database.reading() as session:
            return await batches.get(session, kb_id, batch_id)

    async def again(self, session: AsyncSession, row: DocumentRow, password: str | None) -> None:
        """Queues what failed or was cancelled. What was done is kept, but for what came of a file that is no good."""
        sealed = row.sealed_password if password is None else self._seal.close(password)
        if row.state == DocumentState.FAILED and not row.error_retryable:
            await self._from_the_beginning(session, row, sealed)
        else:
            await documents.requeue(session, row.id, sealed_password=sealed)
            await jobs.enqueue(session, row.id)

    async def anew(self, session: AsyncSession, document_id: str) -> None:
        """Queues a document to be read from its first page on, beside the passages that serve meanwhile."""
        row = await session.get(DocumentRow, document_id)
        if row is None:  # removed a moment ago
            return
        if row.state == DocumentState.SEARCHABLE:
            row = await rereads.begin(session, row)
        if row.state == DocumentState.FAILED:
            await self._from_the_beginning(session, row, row.sealed_password)
        elif row.state == DocumentState.QUEUED and not await jobs.any_of(session, row.id):
            await jobs.enqueue(session, row.id)

    async def _from_the_beginning(self, session: AsyncSession, row: DocumentRow, sealed: bytes | None) -> None:
        await chunks.clear(session, row.id)
        await pages.clear(session, row.id)
        begun = ("chunks", "chunks_done") if row.shares_pages else ("pages", "pages_done", "chunks", "chunks_done")
        counts = dict.fromkeys(begun, 0)
        await documents.requeue(session, row.id, sealed_password=sealed, **counts)
        await jobs.enqueue(session, row.id)

    async def _take(self, session: AsyncSession, kb_id: str, file: StoredFile, new: NewFile) -> None:
        wish = Wish(
            file=file,
            sealed_password=None if new.password is None else self._seal.close(new.password),
            chunk_tokens=new.chunk_tokens,
            chunk_overlap_tokens=new.chunk_overlap_tokens,
            replaces=new.replaces,
        )
        row, is_new = await documents.add(session, kb_id, wish)
        await attachments.attach(session, kb_id, file.id, row.id, new.attributes)
        if is_new:
            await jobs.enqueue(session, row.id)
        elif _may_succeed_now(row, new):
            await self.again(session, row, new.password)


def _may_succeed_now(row: DocumentRow, new: NewFile) -> bool:
    if row.state == DocumentState.FAILED:
        return row.error_retryable or new.password is not None
    return row.state == DocumentState.CANCELLED
