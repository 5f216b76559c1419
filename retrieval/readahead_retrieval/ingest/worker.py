"""Takes jobs from the queue and runs them, so many at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.ingest.changes import QUEUE, Changes
from readahead_retrieval.ingest.endurance import RETRY_S, outlasting
from readahead_retrieval.ingest.failure import failure
from readahead_retrieval.ingest.pipeline import DocumentGone, Pipeline
from readahead_retrieval.ingest.publisher import Publisher
from readahead_retrieval.store import documents, jobs
from readahead_retrieval.store.jobs import LEASE, Claimed
from readahead_retrieval.store.session import Database

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""Starts without any progress between, after which a document is given up."""


class Workers:
    """So many tasks, each with one document at a time; they sleep while the queue is empty."""

    def __init__(
        self,
        database: Database,
        pipeline: Pipeline,
        publisher: Publisher,
        changes: Changes,
        *,
        retry_s: float = RETRY_S,
        lease: timedelta = LEASE,
    ) -> None:
        self._database = database
        self._retry_s = retry_s
        self._lease = lease
        self._pipeline = pipeline
        self._publisher = publisher
        self._changes = changes
        self._work = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._held: set[str] = set()
        """Documents from their claim until their job has ended, however long writing that down takes."""
        self._underway: dict[str, asyncio.Task[None]] = {}

    def start(self, concurrency: int) -> None:
        self._tasks = [asyncio.create_task(self._loop(), name=f"ingest {i}") for i in range(concurrency)]

    async def wake(self) -> None:
        """Jobs were queued."""
        async with self._work:
            self._work.notify_all()

    async def interrupt(self, document_id: str) -> None:
        """Has whoever works on the document let go of it, and returns once that is so."""
        if work := self._underway.get(document_id):
            await self._end(work)

    async def close(self) -> None:
        """Stops at once: what is committed is kept, the rest is done again after the next open."""
        for task in self._tasks:
            await self._database.outside(task)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def has_died(self) -> bool:
        """Whether a task has ended that should run for ever."""
        return any(task.done() for task in self._tasks)

    async def _end(self, work: asyncio.Task[None]) -> None:
        await self._database.outside(work)
        work.cancel()
        await asyncio.wait([work])

    async def _loop(self) -> None:
        while True:
            job = await outlasting(self._next, "A look into the queue", self._retry_s)
            self._changes.notify(QUEUE)
            try:
                await self._run(job)
            except Exception:  # top of a background task: one document must not end the worker
                log.exception("A job could not be ended")
            self._held.discard(job.document_id)
            self._changes.notify(job.document_id)

    async def _next(self) -> Claimed:
        while True:
            async with self._work:  # held while looking, so that no wake is missed between looking and waiting
                async with self._database.writing() as session:
                    job = await jobs.claim(session, self._held, self._lease)
                if job is not None:
                    self._held.add(job.document_id)
                    return job
                await self._work.wait()

    async def _run(self, job: Claimed) -> None:
        try:
            _check_attempts(job)
            async with self._heartbeat(job):
                await self._interruptibly(job.document_id)
        except DocumentGone:
            self._publisher.nudge(job.kb_id)
        except DocumentError as error:
            await self._fail(job, error)
        except Exception as error:  # whatever it is, the document must say so
            log.exception("A document could not be ingested")
            await self._fail(job, failure(error, "The document could not be read"))
        else:
            self._publisher.request(job.kb_id)

    async def _interruptibly(self, document_id: str) -> None:
        """Raises `DocumentGone` when `interrupt` ended it, and what the pipeline raises."""
        work = self._underway[document_id] = asyncio.create_task(self._pipeline.run(document_id))
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            await self._end(work)
            raise
        finally:
            del self._underway[document_id]
        if work.cancelled():
            raise DocumentGone
        work.result()

    async def _fail(self, job: Claimed, error: DocumentError) -> None:
        async def write() -> None:
            async with self._database.writing() as session:
                await documents.fail(session, job.document_id, error)
                await jobs.finish(session, job.document_id)

        await outlasting(write, "Writing down why a document failed", self._retry_s)
        self._publisher.nudge(job.kb_id)

    @asynccontextmanager
    async def _heartbeat(self, job: Claimed) -> AsyncIterator[None]:
        beating = asyncio.create_task(self._beat(job.document_id))
        try:
            yield
        finally:
            await self._database.outside(beating)
            beating.cancel()

    async def _beat(self, document_id: str) -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 4)
            try:
                async with self._database.writing() as session:
                    await jobs.renew(session, document_id, self._lease)
            except Exception:  # top of a background task: the next beat may get through
                log.exception("A lease could not be renewed")


def _check_attempts(job: Claimed) -> None:
    """A document that takes the whole process down must not do so at every start."""
    if job.attempts > MAX_ATTEMPTS:
        raise DocumentError("internal", f"Reading the file broke off {MAX_ATTEMPTS} times.")
