"""Server-sent events: frames, heartbeats, and errors inside a stream that has begun."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from starlette.responses import StreamingResponse

from readahead_platform.gateway.drain import Drain, stopping
from readahead_platform.gateway.errors import envelope, to_api_error
from readahead_platform.gateway.event_pump import EventPump

DONE = b"data: [DONE]\n\n"
_HEARTBEAT = b": ping\n\n"
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def frame(data: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


async def event_stream(frames: AsyncIterator[bytes], drain: Drain, heartbeat_s: float) -> StreamingResponse:
    """Answers with `frames` and a comment after each silence.

    What fails before the first frame is raised, so that it gets a status of its own; if the first frame takes longer
    than a heartbeat the answer begins without it. What fails later becomes an error frame, on which SDKs raise, and no
    [DONE] follows; so ends a stream that a stopping gateway cannot wait for. A client that leaves ends `frames` at
    once.
    """
    stack = AsyncExitStack()
    pump = await stack.enter_async_context(EventPump(frames))
    over = asyncio.create_task(drain.over())
    stack.callback(over.cancel)
    source = _Source(pump, over, heartbeat_s)
    try:
        first = await source.next()
    except BaseException:
        await stack.aclose()
        raise
    return StreamingResponse(_body(stack, source, first), media_type="text/event-stream", headers=_HEADERS)


async def _body(stack: AsyncExitStack, source: _Source, first: bytes | None) -> AsyncIterator[bytes]:
    async with stack:
        data = first
        try:
            while data is not None:
                yield data
                data = await source.next()
        except Exception as error:  # noqa: BLE001 - the top of a stream: the status is sent, so the frame must tell
            yield frame(envelope(to_api_error(error)))


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a stream's frames come from, and what ends it early."""

    pump: EventPump[bytes]
    over: asyncio.Task[None]
    heartbeat_s: float

    async def next(self) -> bytes | None:
        """The next frame, a comment after a silence, or None at the end.

        Raises:
            ApiError: The gateway stops.
        """
        following = asyncio.create_task(self.pump.next(self.heartbeat_s))
        try:
            await asyncio.wait([following, self.over], return_when=asyncio.FIRST_COMPLETED)
            if self.over.done():
                raise stopping()
            return following.result()
        except TimeoutError:
            return _HEARTBEAT
        except StopAsyncIteration:
            return None
        finally:
            following.cancel()
