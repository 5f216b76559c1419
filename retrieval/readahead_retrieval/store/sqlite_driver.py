"""SQLite's connection for asyncio, closed well when a transaction is cancelled twice."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import aiosqlite

ROWS_PER_FETCH = 64


class SingleStopConnection(aiosqlite.Connection):
    """Tells its thread to stop once.

    SQLAlchemy closes a cancelled transaction's connection, and by force when it is cancelled again meanwhile: the
    driver's thread ends at the first of two stops, and whoever awaits the second would wait for ever.
    """

    _stopped: asyncio.Future[Any] | None = None

    def stop(self) -> asyncio.Future[Any] | None:
        """Answers with the first stop's end, which each of its waiters may leave alone."""
        if self._running or self._stopped is None:
            self._stopped = super().stop()
        return self._stopped and asyncio.shield(self._stopped)


def open_connection(database: str, **options: Any) -> SingleStopConnection:
    """Opens at the first await. `options` are those of `sqlite3.connect`."""
    connection = SingleStopConnection(lambda: sqlite3.connect(database, **options), ROWS_PER_FETCH)
    connection._thread.daemon = True  # an open connection never keeps the process alive
    return connection
