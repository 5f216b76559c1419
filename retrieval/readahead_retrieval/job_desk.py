"""Jobs as people see them: what is read, how far it has come, and how to stop it or start it anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import DocumentRemoved, InvalidState, NotFound
from readahead_retrieval.ingest.changes import QUEUE
from readahead_retrieval.ingest.intake import SLICE, Intake
from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.pdf.version import READER_VERSION
from readahead_retrieval.store import documents, jobs, knowledge_bases, rereads
from readahead_retrieval.store.models import DocumentRow
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Document, DocumentState, Job

JOB_PREFIX, DOCUMENT_PREFIX = "job_", "doc_"


class Jobs:
    """Each document is one job, which begins anew when it is retried or read anew, and goes with the document.

    A document that is read anew serves meanwhile as it was read before, and its job alone tells how far the new
    reading has come. As in `Library`, what is not the tenant's raises `NotFound`.
    """

    def __init__(self, database: Database, ingestion: Ingestion, intake: Intake) -> None:
        self._database = database
        self._ingestion = ingestion
        self._intake = intake

    async def list(self, tenant: str) -> list[Job]:
        """Of every knowledge base, oldest first."""
        async with self._database.reading() as session:
            found = await documents.of_tenant(session, tenant)
            readings = await rereads.of_all(session, [document.id for document in found])
            positions = await jobs.positions(session)
        return [_job(document, readings.get(document.id), positions) for document in found]

    async def get(self, tenant: str, job_id: str) -> Job:
        async with self._database.reading() as session:
            document = documents.document_of(await _row(session, tenant, job_id))
            reading = await rereads.of(session, document.id)
            positions = await jobs.positions(session, [document.id if reading is None else reading.id])
        return _job(document, reading, positions)

    async def refresh(
        self, tenant: str, kb: str, *, everything: bool = False, document_id: str | None = None
    ) -> Sequence[Job]:
        """Queues documents to be read anew from their kept files: those that an older reader read, or `everything`.
        With `document_id` only that one is.

        Their old passages serve until the new ones stand; one that failed begins anew itself. What is read anew
        already goes on. Returns their jobs.
        """
        async with self._database.reading() as session:
            kb_id = (await knowledge_bases.get(session, tenant, kb)).id
            due = await rereads.due(session, kb_id, READER_VERSION, everything=everything)
        due = [each for each in due if document_id in (None, each)]
        for start in range(0, len(due), SLICE):
            async with self._database.writing() as session:
                for document_id in due[start : start + SLICE]:
                    await self._intake.anew(session, document_id)
        await self._ingestion.added()
        chosen = {id_of(document_id) for document_id in due}
        return [job for job in await self.list(tenant) if job.id in chosen]

    async def cancel(self, tenant: str, job_id: str) -> Job:
        """Stops it where it stands; nothing of it is searchable. Raises `InvalidState` when it has come too far.

        A document that was to be read anew stays as it was.
        """
        async with self._database.writing() as session:
            row = await _underway(session, tenant, job_id)
            if not documents.document_of(row).cancellable:
                raise InvalidState(f"The job {job_id!r} is {row.state}: it is cancelled while it waits or is read.")
            if row.rereads is None:
                await documents.cancel(session, row.id)
                await jobs.finish(session, row.id)
            else:
                await rereads.drop(session, row.id)
        await self._ingestion.cancelled(row.kb_id, row.id)
        return await self.get(tenant, job_id)

    async def retry(self, tenant: str, job_id: str, password: str | None = None) -> Job:
        """Queues it anew. Raises `InvalidState` unless it failed or was cancelled."""
        async with self._database.writing() as session:
            row = await _underway(session, tenant, job_id)
            if row.state not in {DocumentState.FAILED, DocumentState.CANCELLED}:
                raise InvalidState(f"The job {job_id!r} is {row.state}: it is retried once it failed or was cancelled.")
            await self._intake.again(session, row, password)
        await self._ingestion.added()
        return await self.get(tenant, job_id)

    async def watch(self, tenant: str, job_id: str) -> AsyncIterator[Job]:
        """The job now and at each change until it is finished. Raises `NotFound` once its document is removed."""
        last: Job | None = None
        async with self._database.reading() as session:
            own = (await _underway(session, tenant, job_id)).id
        with self._ingestion.changes.watching(_document_id(job_id), own, QUEUE) as changed:
            while last is None or not last.document.finished:
                changed.clear()
                job = await self.get(tenant, job_id)
                if job != last:
                    last = job
                    yield job
                if not job.document.finished:
                    await changed.wait()


def id_of(document_id: str) -> str:
    """A document and its job bear one number."""
    return JOB_PREFIX + document_id.removeprefix(DOCUMENT_PREFIX)


def _job(document: Document, reading: DocumentRow | None, positions: Mapping[str, int]) -> Job:
    if reading is None:
        return Job(id_of(document.id), document, positions.get(document.id))
    return Job(id_of(document.id), replace(documents.document_of(reading), id=document.id), positions.get(reading.id))


async def _underway(session: AsyncSession, tenant: str, job_id: str) -> DocumentRow:
    """What the job is about: the document, or the reading that is to take its place."""
    row = await _row(session, tenant, job_id)
    return await rereads.of(session, row.id) or row


async def _row(session: AsyncSession, tenant: str, job_id: str) -> DocumentRow:
    """The job's document; what is not there is told by the name that was asked for."""
    try:
        return await documents.get(session, tenant, _document_id(job_id))
    except DocumentRemoved:
        raise
    except NotFound as error:
        raise NotFound("job", job_id) from error


def _document_id(job_id: str) -> str:
    if not job_id.startswith(JOB_PREFIX):
        raise NotFound("job", job_id)
    return DOCUMENT_PREFIX + job_id.removeprefix(JOB_PREFIX)
