"""Sends a request again when the connection that it was put on had just been closed by the server."""

from __future__ import annotations

from typing import Any

import httpx

_OPENED = "connection.connect_tcp.started"


class FreshConnectionTransport(httpx.AsyncBaseTransport):
    """Repeats a request once, where no byte of an answer came over a connection that was used before.

    A server may close an idle connection in the moment in which it is used again: the request was never read (RFC 9110,
    section 9.2.2, and RFC 9112, section 9.3.1). On a connection of its own a request is not repeated: there the server
    has read it and failed.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        seen: set[str] = set()

        async def trace(event: str, _info: dict[str, Any]) -> None:
            seen.add(event)

        request.extensions = {**request.extensions, "trace": trace}
        try:
            return await self._inner.handle_async_request(request)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if _OPENED in seen:
                raise
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
