"""Workers and publisher outlive what passes: a full disk, a locked database."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.index.shelf import Shelf
from readahead_retrieval.ingest.changes import Changes
from readahead_retrieval.ingest.publisher import Publisher
from readahead_retrieval.ingest.worker import Workers
from readahead_retrieval.store import documents
from readahead_retrieval.store.migrate import migrate
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
