"""The knowledge server at /mcp: streamable HTTP, both eras of the protocol, the tenant from the key alone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from readahead_agents.mcp.knowledge import Knowledge
from readahead_agents.mcp.knowledge_server import knowledge_server
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import require_key
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.errors import error_response
from readahead_platform.gateway.mcp_asker import ChatAsker
from readahead_platform.gateway.mcp_sessions import McpSessions
from readahead_platform.gateway.scopes import SCOPES

MCP_PATH = "/mcp"
MAX_MCP_BODY_BYTES = 4 << 20
"""A PDF of about 2 MB within a call; larger files go through /v1/files."""
MAX_SESSIONS = 1000
SESSION_IDLE_S = 600.0
_METADATA_PATH = "/.well-known/oauth-protected-resource"
# Rebinding a name to this host gains nothing: every request needs a key, which no browser sends by itself.
_ANY_HOST = TransportSecuritySettings(enable_dns_rebinding_protection=False)

_tenant: ContextVar[str] = ContextVar("mcp_tenant")


class McpEndpoint:
    """Checks the key as every route does, then hands the request to the server of the key's scopes.

    Clients of the protocol up to 2025-11-25 get a session, which only the key that opened it can use, so that they can
    cancel what they asked for; unused ones end. Clients of 2026-07-28 need none.
    """

    def __init__(self, context: GatewayContext) -> None:
        self._tenants = context.tenants
        self._library = context.library
        self._asker = ChatAsker(context.chat)
        self._sessions = McpSessions(SESSION_IDLE_S)
        self._reading = self._server(writes=False)
        self._writing = self._server(writes=True)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Requests are served within; once only."""
        async with self._reading.session_manager.run(), self._writing.session_manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            key = await require_key(self._tenants, Headers(scope=scope))
            self._sessions.admit(key.tenant, scope)
        except ApiError as error:
            refusal = error_response(error)
            if error.status == 401:
                refusal.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{_metadata_url(Request(scope))}"'
            await refusal(scope, receive, send)
            return
        server = self._writing if "write" in key.scopes else self._reading
        scope["user"] = AuthenticatedUser(AccessToken(token=key.id, client_id=key.id, scopes=list(key.scopes)))
        _tenant.set(key.tenant)  # seen by the request's own task and by those it starts
        await server.session_manager.handle_request(scope, receive, self._sessions.watch(key.tenant, scope, send))

    def reading_server_of(self, tenant: str) -> MCPServer:
        """A server in memory for one tenant, without tools that write."""
        knowledge = Knowledge(self._library, self._asker, tenant)
        return knowledge_server(lambda: knowledge, version=version("readahead"), writes=False)

    def _server(self, *, writes: bool) -> MCPServer:
        server = knowledge_server(self._knowledge, version=version("readahead"), writes=writes)
        server.streamable_http_app(
            streamable_http_path=MCP_PATH,
            max_sessions=MAX_SESSIONS,
            session_idle_timeout=SESSION_IDLE_S,
            max_request_body_size=MAX_MCP_BODY_BYTES,
            transport_security=_ANY_HOST,
        )
        return server

    def _knowledge(self) -> Knowledge:
        return Knowledge(self._library, self._asker, _tenant.get())


def add_mcp_routes(app: FastAPI, endpoint: McpEndpoint) -> None:
    """/mcp, and the document that tells clients how to send the key (RFC 9728)."""
    for path in (MCP_PATH, f"{MCP_PATH}/"):
        app.router.routes.append(Route(path, endpoint=endpoint))
    for path in (_METADATA_PATH, f"{_METADATA_PATH}{MCP_PATH}"):
        app.add_api_route(path, _metadata, include_in_schema=False)
    app.add_api_route("/.well-known/{rest:path}", _no_such_document, include_in_schema=False)


def _metadata(request: Request) -> JSONResponse:
    document: dict[str, Any] = {
        "resource": f"{_base_url(request)}{MCP_PATH}",
        "resource_name": "Readahead",
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
    }
    return JSONResponse(document)


def _no_such_document(rest: str) -> None:
    """As JSON: a client that looks for an authorization server must not be handed the web page."""
    raise ApiError(404, f"There is no such document: /.well-known/{rest}.", code="unknown_url")


def _metadata_url(request: Request) -> str:
    return f"{_base_url(request)}{_METADATA_PATH}{MCP_PATH}"


def _base_url(request: Request) -> str:
    return str(request.base_url).rstrip("/")
