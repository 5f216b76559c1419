"""The gateway: the product's HTTP face."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator

from fastapi import FastAPI
from starlette.routing import Route

from readahead_platform.api import (
    agent_runs,
    chat,
    chunks,
    conversations,
    file_batches,
    files,
    health,
    jobs,
    keys,
    models,
    packs,
    pages,
    passed_through,
    responses,
    search_report,
    vector_store_files,
    vector_store_search,
    vector_stores,
)
from readahead_platform.gateway.auth import AuthMiddleware
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.drain import DrainMiddleware
from readahead_platform.gateway.errors import install_error_handlers
from readahead_platform.gateway.json_bodies import PlainJsonMiddleware
from readahead_platform.gateway.mcp_endpoint import MAX_MCP_BODY_BYTES, MCP_PATH, McpEndpoint, add_mcp_routes
from readahead_platform.gateway.middleware import (
    BodyLimitMiddleware,
    MetricsMiddleware,
    RequestIdMiddleware,
    UnforeseenErrorMiddleware,
)
from readahead_platform.gateway.unknown_route import UnknownRoute
from readahead_platform.observe.event_loop import watched_lag
from readahead_platform.responses.service import Responses
from readahead_platform.responses.tool_servers import ToolServers

_UPLOAD = re.compile(r"/v1/files/?|/_nicegui/client/[^/]+/upload/\d+")
_MULTIPART_ROOM = 64 << 10
"""Bytes that the parts around an uploaded file may take."""


def create_app(context: GatewayContext) -> FastAPI:
    """Builds the app over an open context; whoever opened the context closes it."""
    mcp = McpEndpoint(context)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with (
            watched_lag(context.metrics.loop_lag_seconds.observe),
            mcp.running(),
            context.pack_upkeep.running(await context.tenants.names()),
        ):
            yield

    app = FastAPI(title="Readahead", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.context = context
    app.state.responses = Responses(context, ToolServers(context.settings.agents.mcp_servers, mcp.reading_server_of))
    install_error_handlers(app)
    for module in (
        chat,
        passed_through,
        models,
        files,
        vector_stores,
        vector_store_files,
        vector_store_search,
        search_report,
        file_batches,
        jobs,
        chunks,
        packs,
        pages,
        agent_runs,
        responses,
        conversations,
        keys,
        health,
    ):
        app.include_router(module.router)
    add_mcp_routes(app, mcp)
    app.router.routes.append(Route("/v1/{rest:path}", UnknownRoute(app), include_in_schema=False))
    _add_middleware(app, context)
    return app


def _add_middleware(app: FastAPI, context: GatewayContext) -> None:
    """The last one added sees a request first."""
    settings = context.settings

    def limit(path: str) -> int:
        if _UPLOAD.fullmatch(path):
            return settings.retrieval.max_file_bytes + _MULTIPART_ROOM
        if path.startswith(MCP_PATH):
            return MAX_MCP_BODY_BYTES
        return settings.gateway.max_body_bytes

    app.add_middleware(PlainJsonMiddleware)
    app.add_middleware(AuthMiddleware, tenants=context.tenants, page_links=context.page_links)
    app.add_middleware(DrainMiddleware, drain=context.drain)
    app.add_middleware(BodyLimitMiddleware, limit=limit)
    app.add_middleware(UnforeseenErrorMiddleware)
    app.add_middleware(MetricsMiddleware, metrics=context.metrics)
    app.add_middleware(RequestIdMiddleware)
