"""Whether the database takes writes: asked by writing, for nothing else knows of a lock, a full or a read-only disk."""

from __future__ import annotations

import asyncio
import logging
import time

from readahead_retrieval.errors import StorageFull
from readahead_retrieval.store.models import WriteProbeRow, utc_now
from readahead_retrieval.store.session import Database, insert_for

EVERY_S = 5.0
LATE_S = 5.0
"""A write that takes longer is told, and still waited for: to cancel it would leave its lock to nobody."""

log = logging.getLogger(__name__)


class WriteProbe:
    """Writes one small row again and again, from `start` to `close`."""

    def __init__(self, database: Database, *, every_s: float = EVERY_S, late_s: float = LATE_S) -> None:
        self._database = database
        self._every_s = every_s
        self._late_s = late_s
        self._begun: float | None = None
        self._refused: str | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="write probe")

    async def close(self) -> None:
        if self._task is not None:
            await self._database.outside(self._task)
            self._task.cancel()
            await asyncio.wait([self._task])

    def failure(self) -> str | None:
        """Why nothing can be written just now; None while writes get through."""
        waited = 0.0 if self._begun is None else time.monotonic() - self._begun
        if waited > self._late_s:
            return f"the database has not taken a write for {waited:.0f} s: something holds its lock, or its disk hangs"
        return self._refused

    async def _run(self) -> None:
        while True:
            self._begun = time.monotonic()
            try:
                await self._write()
                self._refused = None
            except StorageFull as error:
                self._refused = error.message
            except Exception as error:  # top of a background task: whatever it is, it may pass
                log.exception("The database cannot be written")
                self._refused = f"the database cannot be written ({type(error).__name__}: {str(error)[:200]})"
            self._begun = None
            await asyncio.sleep(self._every_s)

    async def _write(self) -> None:
        async with self._database.writing() as session:
            insert = insert_for(session)(WriteProbeRow).values(id=1, written_at=utc_now())
            again = {"written_at": insert.excluded.written_at}
            await session.execute(insert.on_conflict_do_update(index_elements=[WriteProbeRow.id], set_=again))
