"""Opens the database, and its two kinds of transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from readahead_retrieval.store.full_disk import disk_errors
from readahead_retrieval.store.sqlite_driver import open_connection

BUSY_TIMEOUT_MS = 30_000
SQLITE_CONNECTIONS = 24
"""Kept open; as many more are opened in need. Each is a thread, whose start the event loop waits for."""


class Database:
    """Reading and writing transactions, apart.

    SQLite has one writer: a transaction that reads first and writes later fails at once when another wrote between
    (SQLITE_BUSY_SNAPSHOT, no waiting helps). Writing transactions therefore take the lock when they begin.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = _create_engine(url)
        self._write = async_sessionmaker(self._engine, expire_on_commit=False)
        self._read = async_sessionmaker(_reading(self._engine), expire_on_commit=False)
        self._inside: dict[asyncio.Task[Any], asyncio.Event] = {}

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """One snapshot of the database, however long it takes."""
        with self._marked():
            async with self._read() as session:
                yield session

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncSession]:
        """Commits at the end; an exception rolls back. Raises `StorageFull`."""
        with self._marked(), disk_errors():
            async with self._write.begin() as session:
                yield session

    async def outside(self, task: asyncio.Task[Any]) -> None:
        """Returns at a moment when the task is in no transaction, so that it may be cancelled.

        A cancellation within one leaves the connection to its thread, and with it SQLite's only write lock for a while.
        """
        while left := self._inside.get(task):
            await left.wait()

    @contextmanager
    def _marked(self) -> Iterator[None]:
        task = asyncio.current_task()
        if task is None or task in self._inside:  # the outer transaction's end counts
            yield
            return
        left = self._inside[task] = asyncio.Event()
        try:
            yield
        finally:
            del self._inside[task]
            left.set()

    async def close(self) -> None:
        await self._engine.dispose()


def insert_for(session: AsyncSession) -> Callable[[Any], sqlite.Insert | postgresql.Insert]:
    """INSERT as the session's database understands it, for what to do on conflicts."""
    return sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert


def sqlite_url(path: Path) -> str:
    """Escaped: a folder's name may hold what means something in a URL."""
    return URL.create("sqlite+aiosqlite", database=str(path)).render_as_string(hide_password=False)


def _create_engine(url: str) -> AsyncEngine:
    if not url.startswith("sqlite"):
        return create_async_engine(url, pool_pre_ping=True)
    engine = create_async_engine(
        url,
        pool_size=SQLITE_CONNECTIONS,
        max_overflow=SQLITE_CONNECTIONS,
        connect_args={"async_creator_fn": open_connection},
    )
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _reading(engine: AsyncEngine) -> AsyncEngine:
    if engine.dialect.name == "sqlite":  # its transactions are snapshots
        return engine.execution_options(reads_only=True)
    return engine.execution_options(isolation_level="REPEATABLE READ")


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin by itself, and only before the first write
    cursor: sqlite3.Cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")  # WAL: a crash of the process loses nothing
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    reads_only = connection.get_execution_options().get("reads_only", False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")
