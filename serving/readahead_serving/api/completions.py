"""POST /v1/completions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse, Response

from readahead_serving.api.context import ServerContext
from readahead_serving.api.disconnect import while_connected
from readahead_serving.api.fields import CompletionFields, Text, Unsupported
from readahead_serving.api.generation import Generation, arrival, completion_budget, total_usage
from readahead_serving.api.models import LanguageModel
from readahead_serving.api.reply import Reply
from readahead_serving.api.sse import DONE, frame
from readahead_serving.api.stream import open_stream
from readahead_serving.engine.request import GenerationRequest, Usage
from readahead_serving.errors import RequestRefused

MAX_PROMPTS = 64
DEFAULT_MAX_TOKENS = 16
"""OpenAI's default for this endpoint."""

TokenIds = list[int]


def as_list_of_inputs(value: Any) -> Any:
    """Brings OpenAI's four forms of input (text, texts, token ids, lists of them) to one: a list of inputs."""
    if isinstance(value, str) or (isinstance(value, list) and value and isinstance(value[0], int)):
        return [value]
    return value


def _only_none(value: Any) -> Any:
    if value is not None:
        raise PydanticCustomError("unsupported_parameter", "this server doesn't support it; leave it out")
    return value


class CompletionRequest(CompletionFields):
    """The body of a text completion request."""

    prompt: Annotated[
        list[Text | TokenIds], BeforeValidator(as_list_of_inputs), Field(min_length=1, max_length=MAX_PROMPTS)
    ]
    best_of: int | None = None
    echo: Unsupported = None
    suffix: Unsupported = None
    logprobs: Annotated[Any, AfterValidator(_only_none)] = None

    @model_validator(mode="after")
    def _best_of_is_n(self) -> CompletionRequest:
        if self.best_of is not None and self.best_of != self.choices:
            raise ValueError("best_of isn't supported beyond n; leave it out")
        return self


def completions_router(context: ServerContext) -> APIRouter:
    """The text completion endpoint over `context`'s models."""
    router = APIRouter()

    @router.post("/v1/completions")
    async def create_completion(body: CompletionRequest, request: Request) -> Response:
        model = context.models.get_language(body.model)
        prompts = await asyncio.to_thread(_tokenize, model, body.prompt)
        reply = Reply("cmpl", model.name)
        generation = Generation(model, _requests(model, body, prompts, reply.id), context.metrics, arrival(request))
        if not body.stream:
            return await while_connected(request.receive, _whole(generation, reply, body.choices))
        frames = _frames(generation, reply, body.choices, with_usage=body.wants_usage_chunk)
        return await open_stream(generation, frames, context.settings.heartbeat_s)

    return router


def _tokenize(model: LanguageModel, prompts: list[str | TokenIds]) -> list[TokenIds]:
    return [model.tokenizer.encode_prompt(p) if isinstance(p, str) else _checked(model, p) for p in prompts]


def _checked(model: LanguageModel, token_ids: TokenIds) -> TokenIds:
    size = model.tokenizer.vocab_size
    outside = next((i for i in token_ids if not 0 <= i < size), None)
    if outside is not None:
        raise RequestRefused(
            f"Token id {outside} is outside the vocabulary of {size}.", param="prompt", code="invalid_value"
        )
    return token_ids


def _requests(
    model: LanguageModel, body: CompletionRequest, prompts: list[TokenIds], reply_id: str
) -> list[GenerationRequest]:
    deadline = body.deadline()
    requests: list[GenerationRequest] = []
    for prompt in prompts:
        if not prompt:
            raise RequestRefused(
                "The prompt is empty; give it at least one token.", param="prompt", code="invalid_value"
            )
        asked = body.max_tokens or DEFAULT_MAX_TOKENS
        max_tokens = completion_budget(model.max_model_len, len(prompt), asked, asked, param="prompt")
        for choice in range(body.choices):
            request_id = f"{reply_id}-{len(requests)}"
            sampling = body.sampling(max_tokens, choice)
            requests.append(
                GenerationRequest(request_id=request_id, prompt_tokens=prompt, sampling=sampling, deadline=deadline)
            )
    return requests


async def _whole(generation: Generation, reply: Reply, choices: int) -> JSONResponse:
    done = await generation.collect()
    listed = [_choice(i, choice.text, choice.finish_reason) for i, choice in enumerate(done)]
    usage = total_usage([choice.usage for choice in done], choices)
    return JSONResponse(reply.object("text_completion", listed, usage=usage))


def _choice(index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


async def _frames(generation: Generation, reply: Reply, choices: int, *, with_usage: bool) -> AsyncGenerator[bytes]:
    usages: dict[int, Usage] = {}
    more = {"usage": None} if with_usage else {}
    async for index, delta in generation:
        usages[index] = delta.usage
        if delta.text or delta.finish_reason is not None:
            listed = [_choice(index, delta.text, delta.finish_reason)]
            yield frame(reply.object("text_completion", listed, **more))
    if with_usage:
        total = total_usage([usages[i] for i in sorted(usages)], choices)
        yield frame(reply.object("text_completion", [], usage=total))
    yield DONE
