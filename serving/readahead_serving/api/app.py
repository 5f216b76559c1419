"""The LLM server's HTTP application."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware import Middleware

from readahead_serving.api.catalogue import catalogue_router
from readahead_serving.api.chat import chat_router
from readahead_serving.api.completions import completions_router
from readahead_serving.api.context import ServerContext
from readahead_serving.api.drain import Drain, DrainMiddleware
from readahead_serving.api.embeddings import embeddings_router
from readahead_serving.api.errors import ErrorHandlers
from readahead_serving.api.health import health_router
from readahead_serving.api.middleware import (
    BearerKeyMiddleware,
    BodyLimitMiddleware,
    HeadMiddleware,
    RequestIdMiddleware,
)
from readahead_serving.api.models import Models
from readahead_serving.api.packs import packs_router
from readahead_serving.metrics import ServingMetrics
from readahead_serving.packs.pack_metrics import PackMetrics
from readahead_serving.settings import ServingSettings


def create_app(settings: ServingSettings, models: Models, drain: Drain | None = None) -> FastAPI:
    """The application, ready to be served.

    Args:
        settings: Limits, heartbeat and key.
        models: What is served. It may be filled later: until then requests are answered 503, and readiness says why.
        drain: Ends the server gracefully; None where nobody will.
    """
    metrics = ServingMetrics(lambda: models.language.engine.stats() if models.language is not None else None)
    drain = drain or Drain(settings.drain_s)
    PackMetrics(metrics.registry, lambda: models.language.packs if models.language is not None else None)
    context = ServerContext(settings, models, metrics, drain)
    middleware = [Middleware(RequestIdMiddleware), Middleware(HeadMiddleware)]
    if settings.api_key:
        middleware.append(Middleware(BearerKeyMiddleware, key=settings.api_key))
    middleware.append(Middleware(DrainMiddleware, drain=drain))
    middleware.append(Middleware(BodyLimitMiddleware, max_bytes=settings.max_body_bytes))
    app = FastAPI(
        title="Readahead LLM server",
        docs_url=None,  # the page would load its scripts from elsewhere; /openapi.json stays
        redoc_url=None,
        strict_content_type=False,
        middleware=middleware,
    )
    for make_router in (
        chat_router,
        completions_router,
        embeddings_router,
        packs_router,
        catalogue_router,
        health_router,
    ):
        app.include_router(make_router(context))
    ErrorHandlers(metrics).install(app)
    return app
