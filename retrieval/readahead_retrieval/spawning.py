"""Child processes that no cancellation can come between."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any


async def spawned(starting: Coroutine[Any, Any, Process], end: Callable[[Process], Awaitable[None]]) -> Process:
    """The process, once it is there.

    A cancellation that comes meanwhile waits for it and has it ended: asyncio would kill it, but not what it has
    started itself, and leave a pipe open that was not connected yet.

    Args:
        starting: Of `asyncio.create_subprocess_exec`.
        end: Ends and reaps a process.
    """
    task = asyncio.create_task(starting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        ending = asyncio.create_task(_ended(task, end))
        while not ending.done():  # a second cancellation waits too
            with suppress(asyncio.CancelledError):
                await asyncio.shield(ending)
        raise


async def _ended(task: asyncio.Task[Process], end: Callable[[Process], Awaitable[None]]) -> None:
    with suppress(OSError):  # what could not be started has nothing to end; the cancellation is what is told
        await end(await task)
