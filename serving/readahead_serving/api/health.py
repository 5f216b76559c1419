"""Health checks and metrics. Live means the process answers; ready means a request would be served."""

from __future__ import annotations

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import JSONResponse, Response

from readahead_serving.api.context import ServerContext


def health_router(context: ServerContext) -> APIRouter:
    """`/health/live`, `/health/ready` and `/metrics`."""
    router = APIRouter()

    @router.get("/health/live")
    async def live() -> dict[str, str]:
        return {"status": "live"}

    @router.get("/health/ready")
    async def ready() -> Response:
        reason = "the server is shutting down" if context.drain.is_draining else context.models.unready_reason()
        if reason is not None:
            return JSONResponse({"status": "unready", "reason": reason}, 503)
        return JSONResponse({"status": "ready"})

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(context.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router
