"""How long the event loop keeps everybody waiting: the sum of whatever computes where it should not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

EVERY_S = 0.05
"""A stall shorter than this may pass between two looks; the longer one is, the surer it is seen."""


@asynccontextmanager
async def watched_lag(observe: Callable[[float], None]) -> AsyncIterator[None]:
    """While the block runs, tells `observe` by how many seconds each of twenty wakings a second comes too late."""
    watching = asyncio.create_task(_watch(observe), name="event loop lag")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def _watch(observe: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + EVERY_S
        await asyncio.sleep(EVERY_S)
        observe(max(0.0, loop.time() - due))
