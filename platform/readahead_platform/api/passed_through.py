"""Requests that go to the LLM server as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from readahead_platform.api.models import model_not_found
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.disconnect import unless_disconnected
from readahead_platform.gateway.llm_client import UpstreamAnswer
from readahead_platform.gateway.sse import event_stream

router = APIRouter()
JsonBody = Annotated[dict[str, Any], Body()]


@router.post("/v1/completions", response_model=None)
async def completions(request: Request, tenant: Tenant, context: Context, body: JsonBody) -> Response:
    return await pass_through(request, tenant, context, "/v1/completions", body)


@router.post("/v1/embeddings", response_model=None)
async def embeddings(request: Request, tenant: Tenant, context: Context, body: JsonBody) -> Response:
    return await pass_through(request, tenant, context, "/v1/embeddings", body)


async def pass_through(
    request: Request, tenant: str, context: GatewayContext, path: str, body: Mapping[str, Any]
) -> Response:
    """The LLM server's answer, streamed where the body asks for it. A client that leaves ends the work there."""
    stream = body.get("stream")
    if not isinstance(stream, bool | None):
        raise ApiError(400, f"stream: {stream!r} is neither true nor false.", param="stream", code="invalid_value")
    try:
        if stream:
            frames = context.llm.stream(path, body, tenant=tenant)
            streaming = event_stream(frames, context.drain, context.settings.gateway.heartbeat_s)
            return await unless_disconnected(request, context.drain, streaming)
        work = context.llm.request("POST", path, body, tenant=tenant)
        return response_of((await unless_disconnected(request, context.drain, work)).unless_refused())
    except ApiError as error:
        if error.code != "model_not_found":
            raise
        raise await model_not_found(tenant, context, str(body.get("model"))) from error


def response_of(answer: UpstreamAnswer) -> Response:
    """What the LLM server said, as it said it."""
    return Response(answer.body, answer.status, answer.headers, answer.content_type)
