"""Reads an async generator from one task, so that whoever consumes it may wait with a time-out.

The generator is started, advanced and closed by the same task, as anyio's cancel scopes inside it require.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio

T = TypeVar("T")
_BUFFERED = 64


class EventPump(Generic[T]):
    """`async with EventPump(source) as pump:`; leaving the block ends the source, whatever it is waiting for."""

    def __init__(self, source: AsyncIterator[T]) -> None:
        self._source = source
        self._send, self._receive = anyio.create_memory_object_stream[T](_BUFFERED)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._produce())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self._task])
        self._receive.close()
        if not self._task.cancelled():
            self._task.exception()  # read, or asyncio complains that nobody did

    async def next(self, timeout_s: float | None = None) -> T:
        """The next event.

        Raises:
            TimeoutError: Nothing came in time; the source goes on.
            StopAsyncIteration: The source has ended.
            Exception: What the source raised, after all events before it.
        """
        assert self._task is not None
        try:
            with anyio.fail_after(timeout_s):
                return await self._receive.receive()
        except anyio.EndOfStream:
            await self._task
            raise StopAsyncIteration from None

    async def _produce(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(self._send)
            if isinstance(self._source, AsyncGenerator):
                await stack.enter_async_context(contextlib.aclosing(self._source))
            async for event in self._source:
                await self._send.send(event)
