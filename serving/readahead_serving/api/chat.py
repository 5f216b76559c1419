"""POST /v1/chat/completions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse, Response

from readahead_serving.api.context import ServerContext
from readahead_serving.api.disconnect import while_connected
from readahead_serving.api.fields import CompletionFields, RequestModel, Text, Unsupported
from readahead_serving.api.generation import Generation, arrival, completion_budget, total_usage
from readahead_serving.api.reply import Reply
from readahead_serving.api.sse import DONE, frame
from readahead_serving.api.stream import open_stream
from readahead_serving.engine.request import GenerationRequest, Usage

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class TextPart(RequestModel):
    """A piece of a message. Only text is understood."""

    type: str
    text: Text = ""

    @field_validator("type")
    @classmethod
    def _is_text(cls, value: str) -> str:
        if value != "text":
            raise PydanticCustomError(
                "unsupported_parameter", "this model reads text parts only, not {kind}", {"kind": value}
            )
        return value


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class Message(RequestModel):
    """A chat message; a string as content stands for one text part."""

    role: str
    content: Annotated[list[TextPart], BeforeValidator(_as_parts)]
    tool_calls: Unsupported = None
    function_call: Unsupported = None

    @field_validator("role")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in _ROLES:
            raise ValueError(f"role must be developer, system, user or assistant, not {value!r}")
        return _ROLES[value]

    def plain(self) -> dict[str, str]:
        return {"role": self.role, "content": "".join(part.text for part in self.content)}


class ChatRequest(CompletionFields):
    """The body of a chat request."""

    messages: list[Message] = Field(min_length=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    tools: Unsupported = None
    tool_choice: Unsupported = None
    functions: Unsupported = None
    function_call: Unsupported = None
    logprobs: Unsupported = None
    top_logprobs: Unsupported = None
    audio: Unsupported = None
    web_search_options: Unsupported = None

    @model_validator(mode="before")
    @classmethod
    def _auto_means_nothing_without_tools(cls, body: Any) -> Any:
        if isinstance(body, dict) and body.get("tool_choice") == "auto":
            return {**body, "tool_choice": None}
        return body

    @property
    def token_limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens


def chat_router(context: ServerContext) -> APIRouter:
    """The chat endpoint over `context`'s models."""
    router = APIRouter()

    @router.post("/v1/chat/completions")
    async def create_chat_completion(body: ChatRequest, request: Request) -> Response:
        model = context.models.get_language(body.model)
        messages = [message.plain() for message in body.messages]
        prompt = await asyncio.to_thread(model.tokenizer.encode_chat, messages)
        default = context.settings.default_max_tokens
        max_tokens = completion_budget(model.max_model_len, len(prompt), body.token_limit, default, param="messages")
        reply = Reply("chatcmpl", model.name)
        deadline = body.deadline()
        requests = [
            GenerationRequest(
                request_id=f"{reply.id}-{i}",
                prompt_tokens=prompt,
                sampling=body.sampling(max_tokens, i),
                deadline=deadline,
            )
            for i in range(body.choices)
        ]
        generation = Generation(model, requests, context.metrics, arrival(request))
        if not body.stream:
            return await while_connected(request.receive, _whole(generation, reply, body.choices))
        frames = _frames(generation, reply, body.choices, with_usage=body.wants_usage_chunk)
        return await open_stream(generation, frames, context.settings.heartbeat_s)

    return router


async def _whole(generation: Generation, reply: Reply, choices: int) -> JSONResponse:
    done = await generation.collect()
    listed = [
        {
            "index": i,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": None,
            "finish_reason": choice.finish_reason,
        }
        for i, choice in enumerate(done)
    ]
    usage = total_usage([choice.usage for choice in done], choices)
    return JSONResponse(reply.object("chat.completion", listed, usage=usage))


async def _frames(generation: Generation, reply: Reply, choices: int, *, with_usage: bool) -> AsyncGenerator[bytes]:
    usages: dict[int, Usage] = {}
    more = {"usage": None} if with_usage else {}

    def chunk(index: int, delta: dict[str, str], finish_reason: str | None = None) -> bytes:
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return frame(reply.object("chat.completion.chunk", [choice], **more))

    async for index, delta in generation:
        if index not in usages:
            yield chunk(index, {"role": "assistant", "content": ""})
        usages[index] = delta.usage
        if delta.text:
            yield chunk(index, {"content": delta.text})
        if delta.finish_reason is not None:
            yield chunk(index, {}, delta.finish_reason)
    if with_usage:
        total = total_usage([usages[i] for i in sorted(usages)], choices)
        yield frame(reply.object("chat.completion.chunk", [], usage=total))
    yield DONE
