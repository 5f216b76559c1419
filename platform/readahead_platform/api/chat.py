"""/v1/chat/completions: a plain model goes to the LLM server, `kb/<name>` to the knowledge base of that name."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from readahead_platform.api.kb_chat import KbChat
from readahead_platform.api.kb_chat_request import KbChatRequest
from readahead_platform.api.models import KB_PREFIX
from readahead_platform.api.passed_through import JsonBody, pass_through
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.disconnect import unless_disconnected
from readahead_platform.gateway.sse import event_stream

router = APIRouter()


@router.post("/v1/chat/completions", response_model=None)
async def chat_completions(request: Request, tenant: Tenant, context: Context, body: JsonBody) -> Response:
    model = body.get("model")
    if not isinstance(model, str):
        raise ApiError(400, "`model` must be a string.", param="model", code="invalid_value")
    if not model.startswith(KB_PREFIX):
        return await pass_through(request, tenant, context, "/v1/chat/completions", body)
    chat = KbChat(context, tenant, KbChatRequest.model_validate(body), str(request.base_url).rstrip("/"))
    if chat.request.stream:
        frames = event_stream(chat.frames(), context.drain, context.settings.gateway.heartbeat_s)
        return await unless_disconnected(request, context.drain, frames)
    return JSONResponse(await unless_disconnected(request, context.drain, chat.completion()))
