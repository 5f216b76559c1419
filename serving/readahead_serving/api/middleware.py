"""What every request passes: a request id, its time of arrival, HEAD, the key, and the limit on its body."""

from __future__ import annotations

import hmac
import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from readahead_serving.api.errors import Failure

_OPEN_PATHS = ("/health/live", "/health/ready")
MAX_COMMAS = 1_000_000
"""In one body: many times what a context window holds, and a tenth of a second to parse."""
_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class RequestIdMiddleware:
    """Puts `x-request-id` on every response: the caller's own, where it sent a sane one, so that logs can be joined."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _SANE_ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"
        scope.setdefault("state", {}).update(request_id=request_id, arrived=time.monotonic())

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


class HeadMiddleware:
    """Answers HEAD as GET without the body, which every server must (RFC 9110, section 9.3.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, send_head)


class BearerKeyMiddleware:
    """Refuses requests without the server's key. Health checks are open, since probes carry no keys."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._expected = f"bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN_PATHS or self._allows(scope):
            await self._app(scope, receive, send)
            return
        message = "Send the server's key as 'Authorization: Bearer KEY'."
        failure = Failure(401, message, code="invalid_api_key", headers={"www-authenticate": "Bearer"})
        await failure.response()(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        scheme, _, key = Headers(scope=scope).get("authorization", "").partition(" ")
        return hmac.compare_digest(f"{scheme.lower()} {key.strip()}".encode(), self._expected)


class BodyLimitMiddleware:
    """Refuses bodies over a limit: by their announced length before a byte is read, else as they come.

    Parsing JSON holds the interpreter's lock, so no thread would keep it from the event loop. What it costs are values
    rather than bytes (30 MB take 0.1 s as one string and 2 s as token ids), and values are bounded by their commas.

    FastAPI's own limit answers in plain text, which no OpenAI client understands.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > self._max_bytes:
            await self._failure().response()(scope, receive, send)
            return
        left, commas = self._max_bytes, 0

        async def receive_within_limit() -> Message:
            nonlocal left, commas
            message = await receive()
            body = message.get("body", b"")
            left -= len(body)
            commas += body.count(b",")
            if left < 0:
                raise HTTPException(413, self._failure().message)
            if commas > MAX_COMMAS:
                raise HTTPException(413, f"The request body has over {MAX_COMMAS} commas; send fewer values.")
            return message

        await self._app(scope, receive_within_limit, send)

    def _failure(self) -> Failure:
        return Failure(413, f"The request body is over {self._max_bytes} bytes.", code="request_too_large")
