"""Jobs as people see them: what is read, how far it has come, and how to stop it or start it anew."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import DocumentRemoved, InvalidState, NotFound
from readahead_retrieval.ingest.changes import QUEUE
from readahead_retrieval.ingest.intake import Intake
from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.store import documents, jobs
from readahead_retrieval.store.models import DocumentRow
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Document, DocumentState, Job

JOB_PREFIX, DOCUMENT_PREFIX = "job_", "doc_"


class Jobs:
    """Each document is one job, which begins anew when it is retried and goes with the document.

    As in `Library`, what is not the tenant's raises `NotFound`.
    """

    def __init__(self, database: Database, ingestion: Ingestion, intake: Intake) -> None:
        self._database = database
        self._ingestion = ingestion
        self._intake = intake

    async def list(self, tenant: str) -> list[Job]:
        """Of every knowledge base, oldest first."""
        async with self._database.reading() as session:
            found = await documents.of_tenant(session, tenant)
            positions = await jobs.positions(session)
        return [_job(document, positions.get(document.id)) for document in found]

    async def get(self, tenant: str, job_id: str) -> Job:
        async with self._database.reading() as session:
            document = documents.document_of(await _row(session, tenant, job_id))
            positions = await jobs.positions(session, [document.id])
        return _job(document, positions.get(document.id))

    async def cancel(self, tenant: str, job_id: str) -> Job:
        """Stops it where it stands; nothing of it is searchable. Raises `InvalidState` when it has come too far."""
        async with self._database.writing() as session:
            row = await _row(session, tenant, job_id)
            if not documents.document_of(row).cancellable:
                raise InvalidState(f"The job {job_id!r} is {row.state}: it is cancelled while it waits or is read.")
            await documents.cancel(session, row.id)
            await jobs.finish(session, row.id)
        await self._ingestion.cancelled(row.kb_id, row.id)
        return await self.get(tenant, job_id)

    async def retry(self, tenant: str, job_id: str, password: str | None = None) -> Job:
        """Queues it anew. Raises `InvalidState` unless it failed or was cancelled."""
        async with self._database.writing() as session:
            row = await _row(session, tenant, job_id)
            if row.state not in {DocumentState.FAILED, DocumentState.CANCELLED}:
                raise InvalidState(f"The job {job_id!r} is {row.state}: it is retried once it failed or was cancelled.")
            await self._intake.again(session, row, password)
        await self._ingestion.added()
        return await self.get(tenant, job_id)

    async def watch(self, tenant: str, job_id: str) -> AsyncIterator[Job]:
        """The job now and at each change until it is finished. Raises `NotFound` once its document is removed."""
        last: Job | None = None
        with self._ingestion.changes.watching(_document_id(job_id), QUEUE) as changed:
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


def _job(document: Document, position: int | None) -> Job:
    return Job(id_of(document.id), document, position)


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
