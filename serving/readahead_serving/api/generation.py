"""Runs the choices of one request on the engine: admission, merging, measuring, and ending them together."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import NamedTuple

import msgspec
from starlette.requests import Request

from readahead_serving.api.models import LanguageModel
from readahead_serving.backends.admission import most_in_flight
from readahead_serving.engine.request import FinishReason, GenerationDelta, GenerationRequest, TokenLogprobs, Usage
from readahead_serving.errors import (
    ContextLengthExceeded,
    DeadlineExceeded,
    GenerationFailed,
    RequestRefused,
    ServingError,
)
from readahead_serving.metrics import ServingMetrics
from readahead_serving.settings import ServingSettings

ADMISSION_GRACE_S = 1.0
"""How long a stream's headers wait for the engine's word, so that a full queue is still a status and not an event."""

SALT_HEADER = "x-readahead-salt"
"""Names the tenant on whose behalf the gateway asks."""


class ChoiceDelta(NamedTuple):
    """A delta of one choice."""

    choice: int
    delta: GenerationDelta


class Choice(NamedTuple):
    """A finished choice."""

    text: str
    finish_reason: FinishReason
    usage: Usage
    logprobs: list[TokenLogprobs]
    prompt_logprobs: list[TokenLogprobs]


def completion_budget(window: int, prompt_tokens: int, asked: int | None, default: int, *, param: str) -> int:
    """Completion tokens that a request may have: what it asked for, or a bounded share of what the window leaves.

    Raises:
        ContextLengthExceeded: Prompt and completion don't fit the window.
    """
    left = window - prompt_tokens
    if left < (asked or 1):
        raise ContextLengthExceeded(
            limit=window, prompt_tokens=prompt_tokens, completion_tokens=asked or 1, param=param
        )
    return asked or min(left, default)


def refuse_hopeless(model: LanguageModel, texts: Iterable[str], *, param: str) -> None:
    """Refuses what cannot fit the window by the length of its texts alone, before seconds are spent on tokens.

    Raises:
        ContextLengthExceeded: With the number of tokens that there are at least.
    """
    least = sum(map(model.tokenizer.least_tokens, texts))
    if least >= model.max_model_len:
        raise ContextLengthExceeded(
            limit=model.max_model_len, prompt_tokens=least, completion_tokens=1, param=param, counted=False
        )


def check_together(settings: ServingSettings, completions: int) -> None:
    """Refuses a request for more completions than are ever taken at once, which no waiting would mend.

    Raises:
        RequestRefused: With the number that may be asked for.
    """
    most = most_in_flight(settings)
    if completions > most:
        raise RequestRefused(
            f"n: {completions} completions are asked for at once, and this server takes {most} at most: "
            "ask for fewer prompts or choices in one request.",
            param="n",
            code="too_many_completions",
        )


class Generation:
    """The choices of one request, computed together. An async iterator that ends all of them when closed.

    Args:
        model: The model that computes.
        requests: One for each choice, in order of their indexes.
        metrics: Where they are measured.
        arrived: When the HTTP request came (time.monotonic).
    """

    def __init__(
        self, model: LanguageModel, requests: Sequence[GenerationRequest], metrics: ServingMetrics, arrived: float
    ) -> None:
        streams = [_measured(model, request, metrics, arrived) for request in requests]
        self._size = len(streams)
        self._stream = _merged(streams)
        self._first: asyncio.Future[ChoiceDelta] | None = None

    async def admitted(self) -> None:
        """Waits for the first delta, or for a grace.

        Raises:
            ServingError: The engine refused the request, as the Engine contract lists.
        """
        self._first = asyncio.ensure_future(anext(self._stream))
        done, _ = await asyncio.wait({self._first}, timeout=ADMISSION_GRACE_S)
        if done and (error := self._first.exception()) is not None:
            raise error

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> ChoiceDelta:
        if self._first is None:
            return await anext(self._stream)
        first = await self._first
        self._first = None
        return first

    async def aclose(self) -> None:
        """Aborts whatever still runs. Idempotent."""
        if self._first is not None:
            self._first.cancel()
            await asyncio.gather(self._first, return_exceptions=True)
        await self._stream.aclose()

    async def collect(self) -> list[Choice]:
        """Waits for all choices to finish, and closes."""
        texts: list[list[str]] = [[] for _ in range(self._size)]
        logprobs: list[list[TokenLogprobs]] = [[] for _ in range(self._size)]
        prompts: list[list[TokenLogprobs]] = [[] for _ in range(self._size)]
        last: dict[int, GenerationDelta] = {}
        async with contextlib.aclosing(self):
            async for index, delta in self:
                texts[index].append(delta.text)
                logprobs[index] += delta.logprobs
                prompts[index] += delta.prompt_logprobs
                last[index] = delta
        return [_choice("".join(texts[i]), last[i], logprobs[i], prompts[i]) for i in range(self._size)]


def arrival(request: Request) -> float:
    """When a request came, as the middleware noted it."""
    return float(getattr(request.state, "arrived", 0.0)) or time.monotonic()


def salt_of(request: Request) -> str:
    """What parts the caches and the fair shares of tenants, from the gateway's header; empty without one.

    Whoever may send this header holds the server's key and speaks for all tenants.
    """
    return request.headers.get(SALT_HEADER, "")


def total_usage(usages: Sequence[Usage], choices: int) -> dict[str, object]:
    """OpenAI's usage object: a prompt counts once, however many choices it has.

    Args:
        usages: By choice; the choices of one prompt stand together.
        choices: How many each prompt has.
    """
    prompts = [usages[i] for i in range(0, len(usages), choices)]
    prompt_tokens = sum(u.prompt_tokens for u in prompts)
    completion_tokens = sum(u.completion_tokens for u in usages)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": _prompt_details(prompts),
    }


def _prompt_details(prompts: Sequence[Usage]) -> dict[str, object]:
    details: dict[str, object] = {"cached_tokens": sum(usage.cached_tokens for usage in prompts)}
    missed = next((usage.pack_miss for usage in prompts if usage.pack_miss is not None), None)
    if missed is not None:
        details["pack_miss"] = msgspec.to_builtins(missed)
    return details


def _choice(
    text: str, last: GenerationDelta, logprobs: list[TokenLogprobs], prompt_logprobs: list[TokenLogprobs]
) -> Choice:
    assert last.finish_reason is not None, "a stream ended without a finish reason"
    return Choice(text, last.finish_reason, last.usage, logprobs, prompt_logprobs)


async def _measured(
    model: LanguageModel, request: GenerationRequest, metrics: ServingMetrics, arrived: float
) -> AsyncGenerator[GenerationDelta]:
    watch = metrics.watch(arrived)
    try:
        async with contextlib.aclosing(model.engine.generate(request)) as deltas:
            async for delta in deltas:
                watch.delta(delta)
                _raise_if_given_up(delta)
                yield delta
    except ServingError:
        watch.failed()
        raise
    finally:
        watch.close()


def _raise_if_given_up(delta: GenerationDelta) -> None:
    if delta.finish_reason == "abort":
        raise DeadlineExceeded(delta.error or "The request's timeout passed before its completion was done.")
    if delta.finish_reason == "refused":
        raise RequestRefused(delta.error or "The engine can't follow this request.", code="structure_not_followed")
    if delta.finish_reason == "error":
        raise GenerationFailed(delta.error or "The engine gave this request up.")


async def _merged(streams: Sequence[AsyncGenerator[GenerationDelta]]) -> AsyncGenerator[ChoiceDelta]:
    """Deltas of all streams as they come. When one fails, or the caller stops, the others are aborted."""
    pending = {asyncio.ensure_future(anext(stream)): i for i, stream in enumerate(streams)}
    try:
        while pending:
            done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                index = pending[task]
                try:
                    yield ChoiceDelta(index, task.result())
                except StopAsyncIteration:
                    del pending[task]
                    continue
                del pending[task]
                pending[asyncio.ensure_future(anext(streams[index]))] = index
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for stream in streams:
            await stream.aclose()
