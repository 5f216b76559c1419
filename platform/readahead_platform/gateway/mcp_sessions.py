"""The MCP sessions of each tenant: none may take the room of the others."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import Message, Scope, Send

from readahead_platform.errors import ApiError

MAX_SESSIONS_OF_TENANT = 100
_SESSION_HEADER = "mcp-session-id"
_MODERN = "2026-07-28"
"""From this version of the protocol on there are no sessions."""


class McpSessions:
    """Counts sessions as they are opened, used and ended."""

    def __init__(self, idle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._used: dict[str, OrderedDict[str, float]] = {}

    def admit(self, tenant: str, scope: Scope) -> None:
        """Raises `ApiError`, 429, for a request that would open one session too many."""
        headers, used = Headers(scope=scope), self._fresh(tenant)
        session = headers.get(_SESSION_HEADER)
        if session is not None:
            self._touch(used, session, ended=scope["method"] == "DELETE")
        elif headers.get("mcp-protocol-version", "") < _MODERN and len(used) >= MAX_SESSIONS_OF_TENANT:
            message = f"{len(used)} MCP sessions are open already; end some, or wait until idle ones end."
            kind = "rate_limit_error"
            raise ApiError(429, message, error_type=kind, code="too_many_sessions", retry_after_s=30)

    def watch(self, tenant: str, scope: Scope, send: Send) -> Send:
        """`send`, which notes a session that the answer opens."""
        if _SESSION_HEADER in Headers(scope=scope):
            return send

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                opened = Headers(raw=message["headers"]).get(_SESSION_HEADER)
                if opened is not None:
                    self._fresh(tenant)[opened] = self._clock()
            await send(message)

        return watched

    def _touch(self, used: OrderedDict[str, float], session: str, *, ended: bool) -> None:
        if used.pop(session, None) is not None and not ended:
            used[session] = self._clock()

    def _fresh(self, tenant: str) -> OrderedDict[str, float]:
        """The tenant's sessions, least recently used first, without those that have ended by now."""
        used = self._used.setdefault(tenant, OrderedDict())
        while used and next(iter(used.values())) < self._clock() - self._idle_s:
            used.popitem(last=False)
        return used
