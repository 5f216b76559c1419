"""Asks an engine for completions, as the API does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from readahead_serving.backends.base import Engine
from readahead_serving.engine.request import GenerationDelta, GenerationRequest, SamplingParams

_ids = itertools.count()


def request(prompt: Sequence[int], *, deadline: float | None = None, **sampling: Any) -> GenerationRequest:
    """A request with a new id: greedy and 16 tokens unless said otherwise."""
    values: dict[str, Any] = {"max_tokens": 16, "temperature": 0} | sampling
    return GenerationRequest(
        request_id=f"test-{next(_ids)}",
        prompt_tokens=list(prompt),
        sampling=SamplingParams(**values),
        deadline=deadline,
    )


async def collect(engine: Engine, asked: GenerationRequest) -> list[GenerationDelta]:
    """All deltas of a request."""
    return [delta async for delta in engine.generate(asked)]


async def tokens_of(engine: Engine, asked: GenerationRequest) -> list[int]:
    """The completion's tokens."""
    return [token for delta in await collect(engine, asked) for token in delta.token_ids]


async def text_of(engine: Engine, asked: GenerationRequest) -> str:
    return "".join(delta.text for delta in await collect(engine, asked))


async def until(condition: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds, a minute at most."""
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never came true: {what}")
