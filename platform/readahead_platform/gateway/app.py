"""The gateway: the product's HTTP face."""

from __future__ import annotations

import re

from fastapi import FastAPI

from readahead_platform.api import (
    chat,
    chunks,
    file_batches,
    files,
    health,
    jobs,
    keys,
    models,
    packs,
    pages,
    passed_through,
    retrieval_test,
    vector_store_files,
    vector_store_search,
    vector_stores,
)
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import AuthMiddleware
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.errors import install_error_handlers
from readahead_platform.gateway.middleware import BodyLimitMiddleware, MetricsMiddleware, RequestIdMiddleware

_UPLOAD = re.compile(r"/v1/files/?|/_nicegui/client/[^/]+/upload/\d+")
_MULTIPART_ROOM = 64 << 10
"""Bytes that the parts around an uploaded file may take."""
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def create_app(context: GatewayContext) -> FastAPI:
    """Builds the app over an open context; whoever opened the context closes it."""
    app = FastAPI(title="Readahead", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.context = context
    install_error_handlers(app)
    for module in (
        chat,
        passed_through,
        models,
        files,
        vector_stores,
        vector_store_files,
        vector_store_search,
        retrieval_test,
        file_batches,
        jobs,
        chunks,
        packs,
        pages,
        keys,
        health,
    ):
        app.include_router(module.router)
    app.add_api_route("/v1/{rest:path}", _unknown, methods=_METHODS, include_in_schema=False)
    _add_middleware(app, context)
    return app


def _add_middleware(app: FastAPI, context: GatewayContext) -> None:
    """The last one added sees a request first."""
    settings = context.settings

    def limit(path: str) -> int:
        if _UPLOAD.fullmatch(path):
            return settings.retrieval.max_file_bytes + _MULTIPART_ROOM
        return settings.gateway.max_body_bytes

    app.add_middleware(AuthMiddleware, tenants=context.tenants, page_links=context.page_links)
    app.add_middleware(BodyLimitMiddleware, limit=limit)
    app.add_middleware(MetricsMiddleware, metrics=context.metrics)
    app.add_middleware(RequestIdMiddleware)


def _unknown(rest: str) -> None:
    """Keeps the web page, which is mounted at /, from answering for the API with a page of its own."""
    raise ApiError(404, f"There is no such route: /v1/{rest}.", code="unknown_url")
