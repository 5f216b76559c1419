"""Health checks and metrics: the only routes without a key."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import JSONResponse

from readahead_platform.gateway.auth import require_key
from readahead_platform.gateway.dependencies import Context

router = APIRouter()
_LOOPBACK = {"127.0.0.1", "::1"}


@router.get("/health/live")
async def live() -> dict[str, str]:
    """The process runs and its event loop turns."""
    return {"status": "live"}


@router.get("/health/ready")
async def ready(context: Context) -> JSONResponse:
    """Whether questions can be answered now, and which part is missing. The LLM server speaks for both models."""
    unwritable = context.library.storage_failure()
    dead = context.library.background_failures()
    parts = {
        "gateway": "stopping" if context.drain.is_draining else "ready",
        "library": f"not_ready: {', '.join(dead)} died; restart the service" if dead else "ready",
        "database": f"not_ready: {unwritable}" if unwritable else "ready",
        "llm_server": "ready" if await context.llm.is_ready() else "not_ready",
    }
    is_ready = all(state == "ready" for state in parts.values())
    return JSONResponse({"status": "ready" if is_ready else "not_ready", "parts": parts}, 200 if is_ready else 503)


@router.get("/metrics")
async def metrics(request: Request, context: Context) -> Response:
    """Prometheus' text format; from another machine only with a key."""
    if request.client is None or request.client.host not in _LOOPBACK:
        await require_key(context.tenants, request.headers)
    return Response(context.metrics.render(context.llm_server.restarts), media_type=CONTENT_TYPE_LATEST)
