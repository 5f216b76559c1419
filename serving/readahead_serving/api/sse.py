"""Server-sent events: frames, heartbeats and the end of a stream (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from readahead_serving.api.disconnect import while_connected
from readahead_serving.api.errors import describe
from readahead_serving.errors import GenerationFailed, ServingError

logger = logging.getLogger(__name__)

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


class Closable(Protocol):
    async def aclose(self) -> None: ...


def frame(data: dict[str, Any]) -> bytes:
    """One event, its data compact JSON."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


async def with_heartbeats(frames: AsyncIterator[bytes], every_s: float) -> AsyncGenerator[bytes]:
    """The same frames, with a comment after each `every_s` seconds of silence."""
    following = asyncio.ensure_future(anext(frames, None))
    try:
        while True:
            await asyncio.wait({following}, timeout=every_s)
            if not following.done():
                yield PING
                continue
            item = following.result()
            if item is None:
                return
            yield item
            following = asyncio.ensure_future(anext(frames, None))
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


class EventStream(StreamingResponse):
    """Sends headers at once, frames as they come, and nothing after the client has left.

    A failure under way becomes an `error` event, which SDKs raise, and the stream ends without `[DONE]`.

    Args:
        frames: What to send.
        source: Closed when the stream ends, however it ends, even if `frames` was never begun.
        heartbeat_s: Seconds of silence after which a comment is sent.
    """

    def __init__(self, frames: AsyncIterator[bytes], *, source: Closable, heartbeat_s: float) -> None:
        super().__init__(frames, media_type="text/event-stream", headers=_HEADERS)
        self._frames = frames
        self._source = source
        self._heartbeat_s = heartbeat_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with contextlib.suppress(ClientDisconnect):
                await while_connected(receive, self._send_all(send))
        finally:
            await self._source.aclose()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with contextlib.aclosing(self._guarded()) as frames:
            async for item in frames:
                await send({"type": "http.response.body", "body": item, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _guarded(self) -> AsyncGenerator[bytes]:
        try:
            async with contextlib.aclosing(with_heartbeats(self._frames, self._heartbeat_s)) as frames:
                async for item in frames:
                    yield item
        except ServingError as error:
            logger.warning("Stream failed: %s", error)
            yield frame(describe(error).envelope())
        except Exception:  # headers are out, so a bug, too, can only reach the client as an error event
            logger.exception("Stream failed")
            yield frame(describe(GenerationFailed("The server failed on this stream.")).envelope())
