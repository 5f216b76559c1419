"""What happens to every request before its route: an id, a bound on its body, a count."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from readahead_platform.errors import ApiError
from readahead_platform.gateway.errors import error_response, to_api_error
from readahead_platform.observe.metrics import GatewayMetrics

_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class RequestIdMiddleware:
    """Gives each request an id (the client's own, where it is sane) and returns it as `x-request-id`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


class UnforeseenErrorMiddleware:
    """Answers what no route foresaw.

    Starlette's own answer comes without an id, and it raises the error again behind it: the server then closes the
    connection on which the client sends its next request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def watch_begin(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watch_begin)
        except Exception as error:  # the top of a request: whatever it is, the client must hear of it
            if has_begun or scope["type"] != "http":
                raise
            await error_response(to_api_error(error))(scope, receive, send)


class BodyLimitMiddleware:
    """Refuses a body over `limit(path)` bytes, by its declared length or while it arrives."""

    def __init__(self, app: ASGIApp, limit: Callable[[str], int]) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._limit(scope["path"])
        message = f"The request's body is over {limit} bytes."
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdigit() and int(declared) > limit:
            await error_response(ApiError(413, message, code="body_too_large"))(scope, receive, send)
            return
        received = 0

        async def bounded_receive() -> Message:
            nonlocal received
            event = await receive()
            received += len(event.get("body", b""))
            if received > limit:
                raise HTTPException(413, message)
            return event

        await self._app(scope, bounded_receive, send)


class MetricsMiddleware:
    """Counts answers by route, method and status."""

    def __init__(self, app: ASGIApp, metrics: GatewayMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 499  # what nginx logs for a client that left before the answer

        async def watch_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._metrics.in_flight.track_inprogress():
            try:
                await self._app(scope, receive, watch_status)
            finally:
                route = getattr(scope.get("route"), "path", "other")
                self._metrics.observe(scope["method"], route, status, time.monotonic() - started)
