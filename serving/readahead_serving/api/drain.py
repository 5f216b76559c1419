"""Shutting down without breaking off: no new requests, time for those in flight, then a clear end."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from readahead_serving.api.errors import describe
from readahead_serving.api.in_flight import InFlight
from readahead_serving.errors import EngineUnavailable

_OPEN_PREFIXES = ("/health/", "/metrics")


class Drain(InFlight):
    """Whether the server takes requests, and which are in flight.

    Args:
        drain_s: Seconds that requests in flight may take once draining has begun.
    """

    def __init__(self, drain_s: float) -> None:
        super().__init__()
        self.drain_s = drain_s
        self._begun = asyncio.Event()

    @property
    def is_draining(self) -> bool:
        return self._begun.is_set()

    def begin(self) -> None:
        """Takes no more requests from now on."""
        self._begun.set()

    async def begun(self) -> None:
        """Waits for `begin`."""
        await self._begun.wait()


class DrainMiddleware:
    """Counts requests in flight, and refuses new ones with 503 while the server drains. Health checks stay open."""

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_OPEN_PREFIXES):
            await self._app(scope, receive, send)
            return
        if self._drain.is_draining:
            error = EngineUnavailable("The server is shutting down.", retry_after_s=self._drain.drain_s)
            await describe(error).response()(scope, receive, send)
            return
        self._drain.enter()
        try:
            await self._app(scope, receive, send)
        finally:
            self._drain.leave()
