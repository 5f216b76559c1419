"""Requests that go to the LLM server as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response

from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.disconnect import unless_disconnected
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
    if body.get("stream") is True:
        return await unless_disconnected(
            request, event_stream(context.llm.stream(path, body, tenant=tenant), context.settings.gateway.heartbeat_s)
        )
    answer = await unless_disconnected(request, context.llm.request("POST", path, body, tenant=tenant))
    return Response(answer.body, answer.status, answer.headers, answer.content_type)
