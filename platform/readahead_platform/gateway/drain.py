"""Shutting down without breaking off: no new requests, time for those in flight, then a clear end."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from readahead_platform.errors import ApiError
from readahead_platform.gateway.errors import error_response
from readahead_serving.api.in_flight import InFlight

_DRAINED = "/v1/"
_LAST_WORDS_S = 2.0
"""Seconds that the errors of what was ended may take to reach their clients."""


class Drain(InFlight):
    """Whether the gateway takes requests, and which are in flight.

    Args:
        drain_s: Seconds that requests in flight may still take once it stops.
    """

    def __init__(self, drain_s: float) -> None:
        super().__init__()
        self._drain_s = drain_s
        self._over = asyncio.Event()
        self.is_draining = False

    async def run(self) -> None:
        """Takes no more requests; returns when the last one has ended, or was told to."""
        self.is_draining = True
        if not await self.idle(self._drain_s):
            self._over.set()
            await self.idle(_LAST_WORDS_S)

    async def over(self) -> None:
        """Waits until requests in flight must end."""
        await self._over.wait()


def stopping(retry_after_s: float = 5.0) -> ApiError:
    """What a request hears that comes too late, or takes too long for a gateway that stops."""
    message = "The server is stopping; ask again when it is back."
    return ApiError(503, message, error_type="server_error", code="server_stopping", retry_after_s=retry_after_s)


class DrainMiddleware:
    """Counts requests below /v1, and refuses new ones while the gateway stops. Health checks stay open."""

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_DRAINED):
            await self._app(scope, receive, send)
            return
        if self._drain.is_draining:
            await error_response(stopping())(scope, receive, send)
            return
        self._drain.enter()
        try:
            await self._app(scope, receive, send)
        finally:
            self._drain.leave()
