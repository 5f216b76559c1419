"""Opens the database, and its two kinds of transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

BUSY_TIMEOUT_MS = 30_000


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

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """One snapshot of the database, however long it takes."""
        async with self._read() as session:
            yield session

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncSession]:
        """Commits at the end; an exception rolls back."""
        async with self._write.begin() as session:
            yield session

    async def close(self) -> None:
        await self._engine.dispose()


def sqlite_url(path: Path) -> str:
    """Escaped: a folder's name may hold what means something in a URL."""
    return URL.create("sqlite+aiosqlite", database=str(path)).render_as_string(hide_password=False)


def _create_engine(url: str) -> AsyncEngine:
    engine = create_async_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name == "sqlite":
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
