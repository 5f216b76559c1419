"""A worker outlives what passes: a full disk, a locked database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.ingest.worker import Workers
from readahead_retrieval.store.migrate import migrate
from readahead_retrieval.store.session import Database, sqlite_url


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
