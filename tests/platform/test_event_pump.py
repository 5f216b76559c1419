"""Reading a generator from one task with time-outs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from readahead_platform.gateway.event_pump import EventPump


class Source:
    """A generator that waits when told to, and remembers which tasks ran it and how it ended."""

    def __init__(self) -> None:
        self.hold = asyncio.Event()
        self.tasks: set[asyncio.Task[object] | None] = set()
        self.closed = False

    async def events(self, *, fail: bool = False) -> AsyncGenerator[int, None]:
        try:
            self.tasks.add(asyncio.current_task())
            yield 1
            await self.hold.wait()
            self.tasks.add(asyncio.current_task())
            yield 2
            if fail:
                raise RuntimeError("broken")
        finally:
            self.tasks.add(asyncio.current_task())
            self.closed = True


async def test_a_silence_is_told_and_loses_nothing() -> None:
    source = Source()
    async with EventPump(source.events()) as pump:
        assert await pump.next(5) == 1
        with pytest.raises(TimeoutError):
            await pump.next(0.01)
        source.hold.set()
        assert await pump.next(5) == 2
        with pytest.raises(StopAsyncIteration):
            await pump.next(5)


async def test_an_error_comes_after_the_events_before_it() -> None:
    source = Source()
    source.hold.set()
    async with EventPump(source.events(fail=True)) as pump:
        assert [await pump.next(5), await pump.next(5)] == [1, 2]
        with pytest.raises(RuntimeError, match="broken"):
            await pump.next(5)


async def test_leaving_ends_a_source_that_waits_in_the_task_that_began_it() -> None:
    source = Source()
    async with EventPump(source.events()) as pump:
        assert await pump.next(5) == 1
    assert source.closed
    assert len(source.tasks) == 1
    assert asyncio.current_task() not in source.tasks
