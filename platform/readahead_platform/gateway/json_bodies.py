"""What JSON can spell and nobody behind the gateway can take: numbers that are none, halves of characters."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from readahead_platform.errors import ApiError
from readahead_platform.gateway.errors import error_response, to_api_error

_SUSPECT = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]|\d[eE]\+?0*\d{3}|\x00")
"""What a body that must be looked through holds. Most hold none of it, and are not read twice."""


class PlainJsonMiddleware:
    """Refuses a JSON body with NaN, Infinity or half of a surrogate pair, naming the place.

    Python reads all three, but no UTF-8, no database and no other JSON reader can hold them: they would fail far from
    where they came in.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "json" not in Headers(scope=scope).get("content-type", ""):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read(receive)
        except HTTPException as error:  # over its bound; no route is there yet to tell it
            await error_response(to_api_error(error))(scope, receive, send)
            return
        if body is None:
            return
        if _SUSPECT.search(body) and (problem := await asyncio.to_thread(_problem, body)) is not None:
            await error_response(problem)(scope, receive, send)
            return
        await self._app(scope, _again(body, receive), send)


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None when the client has left in the middle."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Tells the body as one message, and then what `receive` tells."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return whole.pop() if whole else await receive()

    return replay


def _problem(body: bytes) -> ApiError | None:
    """The first thing that cannot be taken; None for what is no JSON at all, which its route refuses."""
    try:
        waiting: list[tuple[str, Any]] = [("", json.loads(body))]
    except (ValueError, RecursionError):
        return None
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(path, key) for key in value]
            waiting += [(f"{path}.{key}" if path else key, child) for key, child in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", child) for index, child in enumerate(value)]
        elif isinstance(value, float) and not math.isfinite(value):
            return _refusal(path, f"{value} is no number in JSON")
        elif isinstance(value, str) and not _is_whole(value):
            return _refusal(path, "the text holds half of a surrogate pair; send whole characters")
    return None


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refusal(path: str, problem: str) -> ApiError:
    path = path.encode("utf-8", "replace").decode()
    return ApiError(400, f"{path}: {problem}." if path else f"{problem}.", param=path or None, code="invalid_value")
