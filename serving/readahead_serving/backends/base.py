"""The seam between the HTTP API and whatever computes tokens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from readahead_serving.engine.request import EngineStats, GenerationDelta, GenerationRequest


class Engine(Protocol):
    """Computes completions for many requests at once.

    The contract:

    - `generate` yields deltas as they exist; the last one carries `finish_reason`. Closing the generator, or
      cancelling the task that reads it, aborts the request within one step, in the queue, in prefill and in decode.
    - A request the engine can never serve is refused before the first delta with a `RequestRefused` error; a full queue
      with `EngineBusy`; a dead engine with `EngineUnavailable`, which is retryable, and which also ends requests in
      flight when the engine dies under them.
    - `stats` never waits for a step.
    """

    def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationDelta]: ...

    def stats(self) -> EngineStats: ...

    def is_ready(self) -> bool:
        """Whether the engine has loaded its model and is making progress."""
        ...

    async def close(self) -> None: ...
