"""Server-sent events: frames, heartbeats, and errors inside a stream that has begun."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

from starlette.responses import StreamingResponse

from readahead_platform.gateway.errors import envelope, to_api_error
from readahead_platform.gateway.event_pump import EventPump

DONE = b"data: [DONE]\n\n"
_HEARTBEAT = b": ping\n\n"
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def frame(data: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


async def event_stream(frames: AsyncIterator[bytes], heartbeat_s: float) -> StreamingResponse:
    """Answers with `frames` and a comment after each silence.

    What fails before the first frame is raised, so that it gets a status of its own; if the first frame takes longer
    than a heartbeat the answer begins without it. What fails later becomes an error frame, on which SDKs raise, and no
    [DONE] follows. A client that leaves ends `frames` at once.
    """
    stack = AsyncExitStack()
    pump = await stack.enter_async_context(EventPump(frames))
    try:
        first = await _next_or_heartbeat(pump, heartbeat_s)
    except BaseException:
        await stack.aclose()
        raise
    return StreamingResponse(_body(stack, pump, first, heartbeat_s), media_type="text/event-stream", headers=_HEADERS)


async def _body(
    stack: AsyncExitStack, pump: EventPump[bytes], first: bytes | None, heartbeat_s: float
) -> AsyncIterator[bytes]:
    async with stack:
        data = first
        try:
            while data is not None:
                yield data
                data = await _next_or_heartbeat(pump, heartbeat_s)
        except Exception as error:  # noqa: BLE001 - the top of a stream: the status is sent, so the frame must tell
            yield frame(envelope(to_api_error(error)))


async def _next_or_heartbeat(pump: EventPump[bytes], heartbeat_s: float) -> bytes | None:
    """The next frame, a comment after a silence, or None at the end."""
    try:
        return await pump.next(heartbeat_s)
    except TimeoutError:
        return _HEARTBEAT
    except StopAsyncIteration:
        return None
