"""Transactions that are cancelled, and what they leave behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from sqlalchemy import text

from readahead_retrieval.store.session import Database, sqlite_url


async def _cancelled_twice_while_it_waits_for_the_lock(database: Database) -> None:
    async def waits() -> None:
        async with database.writing() as session:
            await session.execute(text("SELECT 1"))

    async with database.writing() as session, database.reading() as other:
        await session.execute(text("CREATE TABLE IF NOT EXISTS held (x)"))
        await other.execute(text("SELECT 1"))  # the pool now holds an open connection for whoever comes next
        await other.close()
        waiting = asyncio.create_task(waits())
        for _ in range(2):
            for _ in range(50):  # first to the lock, then to the closing of its connection
                await asyncio.sleep(0)
            waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()


def test_a_transaction_cancelled_twice_leaves_no_thread_and_no_task_that_waits_for_ever(tmp_path: Path) -> None:
    async def run() -> None:
        database = Database(sqlite_url(tmp_path / "kept.db"))
        await _cancelled_twice_while_it_waits_for_the_lock(database)
        async with database.writing() as session:  # the lock is free again
            await session.execute(text("INSERT INTO held VALUES (1)"))
        await database.close()
        closing = asyncio.all_tasks() - {asyncio.current_task()}
        async with asyncio.timeout(10):
            await asyncio.gather(*closing, return_exceptions=True)

    before = set(threading.enumerate())
    asyncio.run(run())
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=10)
        assert not thread.is_alive(), thread
