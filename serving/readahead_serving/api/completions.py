"""POST /v1/completions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BeforeValidator, Field, model_validator
from starlette.responses import JSONResponse, Response

from readahead_serving.api.context import ServerContext
from readahead_serving.api.disconnect import while_connected
from readahead_serving.api.fields import CompletionFields, Flag, Text, TopLogprobs, Unsupported, refusal
from readahead_serving.api.generation import (
    Generation,
    arrival,
    check_together,
    completion_budget,
    refuse_hopeless,
    salt_of,
    total_usage,
)
from readahead_serving.api.logprobs import CompletionLogprobs
from readahead_serving.api.models import LanguageModel
from readahead_serving.api.reply import Reply
from readahead_serving.api.sse import DONE, frame
from readahead_serving.api.stream import open_stream
from readahead_serving.engine.request import GenerationRequest, TokenLogprobs, Usage
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


class CompletionRequest(CompletionFields):
    """The body of a text completion request."""

    prompt: Annotated[
        list[Text | TokenIds], BeforeValidator(as_list_of_inputs), Field(min_length=1, max_length=MAX_PROMPTS)
    ]
    best_of: int | None = None
    echo: Flag | None = None
    suffix: Unsupported = None
    logprobs: TopLogprobs | None = None

    @model_validator(mode="after")
    def _best_of_is_n(self) -> CompletionRequest:
        if self.best_of is not None and self.best_of != self.choices:
            raise refusal("best_of", "it isn't supported beyond n; leave it out")
        return self

    @property
    def wanted_logprobs(self) -> int | None:
        return self.logprobs

    @property
    def wants_prompt_logprobs(self) -> bool:
        return bool(self.echo) and self.logprobs is not None


def completions_router(context: ServerContext) -> APIRouter:
    """The text completion endpoint over `context`'s models."""
    router = APIRouter()

    @router.post("/v1/completions")
    async def create_completion(body: CompletionRequest, request: Request) -> Response:
        model = context.models.get_language(body.model)
        check_together(context.settings, len(body.prompt) * body.choices)
        prompts = await asyncio.to_thread(_tokenize, model, body.prompt)
        reply = Reply("cmpl", model.name)
        generation = Generation(
            model, _requests(model, body, prompts, reply.id, salt_of(request)), context.metrics, arrival(request)
        )
        echoes = await asyncio.to_thread(_echoes, model, body, prompts) if body.echo else [""] * len(prompts)
        answer = CompletionAnswer(reply, body, model, prompts, echoes)
        if not body.stream:
            return await while_connected(request.receive, answer.whole(generation))
        frames = answer.frames(generation)
        return await open_stream(generation, frames, context.settings.heartbeat_s)

    return router


def _tokenize(model: LanguageModel, prompts: list[str | TokenIds]) -> list[TokenIds]:
    for prompt in prompts:
        if isinstance(prompt, str):
            refuse_hopeless(model, [prompt], param="prompt")
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
    model: LanguageModel, body: CompletionRequest, prompts: list[TokenIds], reply_id: str, salt: str
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
                GenerationRequest(
                    request_id=request_id,
                    group=reply_id,
                    prompt_tokens=prompt,
                    sampling=sampling,
                    deadline=deadline,
                    priority=body.priority,
                    salt=salt,
                )
            )
    return requests


def _echoes(model: LanguageModel, body: CompletionRequest, prompts: list[TokenIds]) -> list[str]:
    """The prompts as text: as they were sent, or decoded."""
    texts = (p if isinstance(p, str) else _decode(model, ids) for p, ids in zip(body.prompt, prompts, strict=True))
    return list(texts)


def _decode(model: LanguageModel, token_ids: TokenIds) -> str:
    return b"".join(map(model.tokenizer.token_bytes, token_ids)).decode("utf-8", "replace")


class CompletionAnswer:
    """A text completion's answer, whole or as a stream of chunks.

    Args:
        reply: The answer's identity.
        body: The request.
        model: The model that computes.
        prompts: The prompts' tokens.
        echoes: What stands before the completions of each prompt.
    """

    def __init__(
        self, reply: Reply, body: CompletionRequest, model: LanguageModel, prompts: list[TokenIds], echoes: list[str]
    ) -> None:
        self._reply = reply
        self._choices = body.choices
        self._with_usage = body.wants_usage_chunk
        self._echoes = [echo for echo in echoes for _ in range(body.choices)]
        self._logprobs: list[CompletionLogprobs] = []
        if body.logprobs is not None:
            first = [ids[0] if body.echo else None for ids in prompts for _ in range(body.choices)]
            self._logprobs = [CompletionLogprobs(model.tokenizer.token_bytes, token) for token in first]

    async def whole(self, generation: Generation) -> JSONResponse:
        """Waits for all completions."""
        done = await generation.collect()
        listed = [
            self._choice(
                i, self._echoes[i] + choice.text, choice.prompt_logprobs + choice.logprobs, choice.finish_reason
            )
            for i, choice in enumerate(done)
        ]
        usage = total_usage([choice.usage for choice in done], self._choices)
        return JSONResponse(self._reply.object("text_completion", listed, usage=usage))

    async def frames(self, generation: Generation) -> AsyncGenerator[bytes]:
        """The events, up to and including [DONE]."""
        usages: dict[int, Usage] = {}
        more = {"usage": None} if self._with_usage else {}
        async for index, delta in generation:
            text = delta.text if index in usages else self._echoes[index] + delta.text
            usages[index] = delta.usage
            if text or delta.finish_reason is not None:
                logprobs = delta.prompt_logprobs + delta.logprobs
                listed = [self._choice(index, text, logprobs, delta.finish_reason)]
                yield frame(self._reply.object("text_completion", listed, **more))
        if self._with_usage:
            total = total_usage([usages[i] for i in sorted(usages)], self._choices)
            yield frame(self._reply.object("text_completion", [], usage=total))
        yield DONE

    def _choice(
        self, index: int, text: str, logprobs: list[TokenLogprobs], finish_reason: str | None
    ) -> dict[str, Any]:
        told = self._logprobs[index].take(logprobs) if self._logprobs else None
        return {"index": index, "text": text, "logprobs": told, "finish_reason": finish_reason}
