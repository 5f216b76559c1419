"""POST /v1/chat/completions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from readahead_serving.api.chat_request import ChatRequest
from readahead_serving.api.chat_stream import ChatStream, chat_message
from readahead_serving.api.context import ServerContext
from readahead_serving.api.disconnect import while_connected
from readahead_serving.api.generation import (
    Choice,
    Generation,
    arrival,
    check_together,
    completion_budget,
    refuse_hopeless,
    salt_of,
    total_usage,
)
from readahead_serving.api.logprobs import chat_logprobs
from readahead_serving.api.models import LanguageModel
from readahead_serving.api.reply import Reply
from readahead_serving.api.stream import open_stream
from readahead_serving.api.tool_prompt import spelled_out
from readahead_serving.engine.request import GenerationRequest


def chat_router(context: ServerContext) -> APIRouter:
    """The chat endpoint over `context`'s models."""
    router = APIRouter()

    @router.post("/v1/chat/completions")
    async def create_chat_completion(body: ChatRequest, request: Request) -> Response:
        model = context.models.get_language(body.model)
        check_together(context.settings, body.choices)
        if (use := body.tool_use()) is not None:
            await use.check(model.structures)
        prompt = await asyncio.to_thread(_prompt, body, model)
        default = context.settings.default_max_tokens
        max_tokens = completion_budget(model.max_model_len, len(prompt), body.token_limit, default, param="messages")
        reply = Reply("chatcmpl", model.name)
        deadline, salt = body.deadline(), salt_of(request)
        requests = [
            GenerationRequest(
                request_id=f"{reply.id}-{i}",
                group=reply.id,
                prompt_tokens=prompt,
                sampling=body.sampling(max_tokens, i),
                deadline=deadline,
                priority=body.priority,
                salt=salt,
            )
            for i in range(body.choices)
        ]
        generation = Generation(model, requests, context.metrics, arrival(request))
        if not body.stream:
            return await while_connected(request.receive, _whole(generation, reply, body, model))
        return await open_stream(generation, _frames(generation, reply, body, model), context.settings.heartbeat_s)

    return router


def _prompt(body: ChatRequest, model: LanguageModel) -> list[int]:
    """Takes milliseconds, or seconds for the largest: call it in a thread."""
    messages = [message.plain() for message in body.messages]
    # what users and tools say no template leaves out, though it may trim it; what the assistant thought it may
    said = (message["content"].strip() for message in messages if message["role"] in ("user", "tool"))
    refuse_hopeless(model, said, param="messages")
    use = body.tool_use()
    tools = [tool.plain() for tool in use.tools] if use is not None else []
    if model.tokenizer.knows_tools:
        return model.tokenizer.encode_chat(messages, tools=tools)
    return model.tokenizer.encode_chat(spelled_out(messages, tools))


async def _whole(generation: Generation, reply: Reply, body: ChatRequest, model: LanguageModel) -> JSONResponse:
    done = await generation.collect()
    listed = [_choice(i, choice, body, model) for i, choice in enumerate(done)]
    usage = total_usage([choice.usage for choice in done], body.choices)
    return JSONResponse(reply.object("chat.completion", listed, usage=usage))


def _choice(index: int, choice: Choice, body: ChatRequest, model: LanguageModel) -> dict[str, Any]:
    message, called = chat_message(choice.text, with_tools=body.tool_use() is not None)
    return {
        "index": index,
        "message": message,
        "logprobs": chat_logprobs(choice.logprobs, model.tokenizer.token_bytes) if body.logprobs else None,
        "finish_reason": "tool_calls" if called and choice.finish_reason == "stop" else choice.finish_reason,
    }


def _frames(generation: Generation, reply: Reply, body: ChatRequest, model: LanguageModel) -> AsyncGenerator[bytes]:
    stream = ChatStream(
        reply,
        choices=body.choices,
        with_tools=body.tool_use() is not None,
        with_usage=body.wants_usage_chunk,
        with_running_usage=body.wants_running_usage,
        token_bytes=model.tokenizer.token_bytes if body.logprobs else None,
    )
    return stream.frames(generation)
