"""Workers and publisher outlive what passes: a full disk, a locked database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.index.shelf import Shelf
from readahead_retrieval.ingest.changes import Changes
from readahead_retrieval.ingest.publisher import Publisher
from readahead_retrieval.ingest.worker import Workers
from readahead_retrieval.store import documents, jobs, knowledge_bases
from readahead_retrieval.store.migrate import migrate
from readahead_retrieval.store.models import JobRow
from readahead_retrieval.store.session import Database, sqlite_url
from readahead_retrieval.types import DocumentState
from readahead_retrieval.workshop.workshop import Workshop
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, opened


class FailsOnce(Database):
    """A database whose first writing transaction meets a full disk."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.tries = 0
        self.read_again = asyncio.Event()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncSession]:
        self.tries += 1
        if self.tries == 1:
            raise OperationalError("BEGIN IMMEDIATE", None, Exception("database or disk is full"))
        async with super().writing() as session:
            yield session
        self.read_again.set()


async def test_a_queue_that_could_not_be_read_is_read_again(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "a.db")
    await asyncio.to_thread(migrate, url)
    database = FailsOnce(url)
    unused = cast("Any", SimpleNamespace())
    workers = Workers(database, unused, unused, unused, retry_s=0.001)
    workers.start(1)
    try:
        async with asyncio.timeout(30):
            await database.read_again.wait()
    finally:
        await workers.close()
        await database.close()


class Endless:
    """What a worker is to do with a document: it never comes to an end, and is counted."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    async def run(self, document_id: str) -> None:
        self.begun.append(document_id)
        await asyncio.Event().wait()


async def lease_end(database: Database, document_id: str) -> datetime:
    async with database.reading() as session:
        ends = await session.scalar(select(JobRow.lease_until).where(JobRow.document_id == document_id))
    assert ends is not None, "it is at work"
    return ends


@asynccontextmanager
async def working(tmp_path: Path, lease: timedelta) -> AsyncIterator[tuple[Database, Workers, Endless]]:
    """Two workers on an empty queue, of which nobody ever finishes a document."""
    url = sqlite_url(tmp_path / "a.db")
    await asyncio.to_thread(migrate, url)
    database, endless = Database(url), Endless()
    unused = cast("Any", SimpleNamespace())
    workers = Workers(database, cast("Any", endless), unused, Changes(), retry_s=0.001, lease=lease)
    workers.start(2)
    try:
        yield database, workers, endless
    finally:
        await workers.close()
        await database.close()


async def queue(database: Database, document_id: str) -> None:
    async with database.writing() as session:
        if not await knowledge_bases.list_all(session, TENANT):
            await knowledge_bases.create(
                session, TENANT, "k", allow_same_name=False, metadata={}, expires_after_days=None
            )
        [kb] = await knowledge_bases.list_all(session, TENANT)
        values = {"file_id": "f", "name": "a.pdf", "sealed_password": None, "replaces": False}
        await documents.insert_new(session, id=document_id, kb_id=kb.id, sha256=document_id, **values)
        await jobs.enqueue(session, document_id)


async def begins(workers: Workers, endless: Endless, document_id: str) -> None:
    await workers.wake()
    async with asyncio.timeout(30):
        while document_id not in endless.begun:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.005)


async def test_a_worker_at_it_renews_its_lease(tmp_path: Path) -> None:
    async with working(tmp_path, timedelta(seconds=0.2)) as (database, workers, endless):
        await queue(database, "doc_1")
        await begins(workers, endless, "doc_1")
        first = await lease_end(database, "doc_1")
        async with asyncio.timeout(30):
            while await lease_end(database, "doc_1") == first:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.005)


async def test_a_document_at_work_is_nobody_elses_though_its_lease_could_not_be_renewed(tmp_path: Path) -> None:
    async with working(tmp_path, timedelta(hours=1)) as (database, workers, endless):
        await queue(database, "doc_1")
        await begins(workers, endless, "doc_1")
        async with database.writing() as session:
            await session.execute(update(JobRow).values(lease_until=datetime.now(UTC) - timedelta(hours=2)))
        await queue(database, "doc_2")
        await begins(workers, endless, "doc_2")
        assert endless.begun == ["doc_1", "doc_2"]


async def test_what_a_worker_left_is_taken_up_once_its_lease_has_run_out(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "a.db")
    await asyncio.to_thread(migrate, url)
    database = Database(url)
    await queue(database, "doc_1")
    async with database.writing() as session:
        assert await jobs.claim(session, lease=timedelta(seconds=-1)) is not None
        assert await jobs.claim(session, held={"doc_1"}) is None, "its worker is here, and at it"
        again = await jobs.claim(session)
        assert again is not None
        assert (again.document_id, again.attempts) == ("doc_1", 2)
        assert await jobs.claim(session) is None, "this lease is new"
    await database.close()


class CannotBeRead(Database):
    """A database that fails every reading transaction but those after the first so many."""

    def __init__(self, url: str, failures: int) -> None:
        super().__init__(url)
        self.failures = failures

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        if self.failures:
            self.failures -= 1
            raise OperationalError("BEGIN", None, Exception("database is locked"))
        async with super().reading() as session:
            yield session


async def test_an_index_is_published_once_the_database_can_be_read_again(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
    with sqlite3.connect(tmp_path / "readahead.db") as raw:  # as if the last build had not been committed
        raw.execute("update documents set state = 'indexing', published = 0")
        raw.execute("delete from generations")
    raw.close()
    database = CannotBeRead(sqlite_url(tmp_path / "readahead.db"), failures=2)
    changes = Changes()
    workshop = Workshop()
    shelf = Shelf(tmp_path / "indexes", database)
    publisher = Publisher(database, shelf, TermEmbedder(), workshop, changes, retry_s=0.001)
    try:
        with changes.watching(document.id) as changed:
            publisher.request(document.kb_id)
            async with asyncio.timeout(30):
                await changed.wait()
        async with database.reading() as session:
            row = await documents.get(session, TENANT, document.id)
        assert row.state == DocumentState.SEARCHABLE
    finally:
        await publisher.close()
        await workshop.close()
        await database.close()
