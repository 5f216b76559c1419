"""Processes that compute for the service, kept for a while when they are free."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from readahead_retrieval.errors import WorkshopDied
from readahead_retrieval.workshop import messages
from readahead_retrieval.workshop.process import WorkshopProcess

T = TypeVar("T")
IDLE_S = 60.0
"""A process that nobody used for so long is ended; the next one starts in a quarter of a second."""
START_TIMEOUT_S = 120.0


class Workshop:
    """As many processes as are asked for at a time: its callers are few, and each uses one.

    Args:
        counter: How these processes count tokens; see `TokenCounter.definition`.
    """

    def __init__(self, counter: str = "", *, idle_s: float = IDLE_S) -> None:
        self._counter = counter
        self._idle_s = idle_s
        self._free: dict[WorkshopProcess, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def process(self) -> AsyncIterator[WorkshopProcess]:
        """One for the block alone. It is used again afterwards, unless the block fails or is cancelled.

        Raises:
            WorkshopDied: It cannot be started.
        """
        process = self._taken() or await self._started()
        try:
            yield process
        except BaseException:  # it may still be at work, or in the middle of an answer
            await process.kill()
            raise
        timer = asyncio.get_running_loop().call_later(self._idle_s, self._retire, process)
        self._free[process] = timer

    @property
    def pids(self) -> list[int]:
        """Of those that are free."""
        return [process.pid for process in self._free]

    async def close(self) -> None:
        for process in list(self._free):
            self._retire(process)
        await asyncio.gather(*self._ending)

    def _taken(self) -> WorkshopProcess | None:
        while self._free:
            process, timer = self._free.popitem()
            timer.cancel()
            if process.is_alive:
                return process
            self._end(process)
        return None

    async def _started(self) -> WorkshopProcess:
        try:
            process = await WorkshopProcess.start()
        except OSError as error:  # no memory, no process
            raise WorkshopDied(str(error)) from error
        try:
            await process.ask(messages.Count(self._counter), START_TIMEOUT_S)
        except BaseException:
            await process.kill()
            raise
        return process

    def _retire(self, process: WorkshopProcess) -> None:
        self._free.pop(process).cancel()
        self._end(process)

    def _end(self, process: WorkshopProcess) -> None:
        ending = asyncio.create_task(process.kill())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


async def surviving(work: Callable[[], Awaitable[T]]) -> T:
    """Does it once more where a process died over it: the kernel ends some when memory is short."""
    try:
        return await work()
    except WorkshopDied:
        return await work()
