"""What a run may spend, and a language model that keeps to it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace

from readahead_agents.errors import BudgetExceeded, LanguageModelUnavailable
from readahead_agents.llm.base import CompletionChunk, CompletionOptions, LanguageModel, Message, TokenUsage
from readahead_agents.settings import AgentSettings


class Budget:
    """Seconds, tokens and tool calls of one run. What streams in flight may still use is reserved, so the limits hold
    when steps run side by side."""

    def __init__(self, settings: AgentSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_seconds = settings.max_seconds
        self._max_tokens = settings.max_llm_tokens
        self._max_calls = settings.max_tool_calls
        self._clock = clock
        self._start = clock()
        self._waits = 0
        self._waiting_since = 0.0
        self._reserved = 0
        self._calls = 0
        self.usage = TokenUsage()
        self.exceeded: BudgetExceeded | None = None
        """Set once seconds or tokens were spent; nothing is begun after that."""
        self.out_of_calls: BudgetExceeded | None = None
        """Set once a call was not made for want of calls; the answer may still be written."""

    @property
    def remaining_s(self) -> float:
        now = self._waiting_since if self._waits else self._clock()
        return self._start + self._max_seconds - now

    @property
    def limits_met(self) -> list[str]:
        """One sentence for each."""
        return [error.message for error in (self.exceeded, self.out_of_calls) if error is not None]

    @contextmanager
    def waiting_for_people(self) -> Iterator[None]:
        """Time within does not count: whoever waits for it bounds it."""
        if not self._waits:
            self._waiting_since = self._clock()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._start += self._clock() - self._waiting_since

    def take_call(self) -> bool:
        """Counts a call of a tool that is about to be made; False where there is none left."""
        if self._calls >= self._max_calls:
            message = f"The run reached its limit of {self._max_calls} tool calls."
            self.out_of_calls = self.out_of_calls or BudgetExceeded(message, "tool_calls")
            return False
        self._calls += 1
        return True

    def check(self) -> None:
        """Raises `BudgetExceeded` when the run has no time left, or met a limit before."""
        if self.remaining_s <= 0:
            self.exceed("seconds", f"The run reached its limit of {self._max_seconds:g} seconds.")
        if self.exceeded is not None:
            raise self.exceeded

    def exceed(self, limit: str, message: str) -> None:
        """Notes that a limit was met; the first one counts."""
        self.exceeded = self.exceeded or BudgetExceeded(message, limit)

    def reserve(self, prompt_tokens: int, max_tokens: int) -> int:
        """Takes the prompt and as much of `max_tokens` as is left.

        Returns:
            The completion tokens allowed, at least 1.

        Raises:
            BudgetExceeded: When not even the prompt fits.
        """
        self.check()
        spent = self.usage.prompt_tokens + self.usage.completion_tokens + self._reserved
        allowed = min(max_tokens, self._max_tokens - spent - prompt_tokens)
        if allowed < 1:
            self.exceed("tokens", f"The run reached its limit of {self._max_tokens} tokens.")
            self.check()
        self._reserved += prompt_tokens + allowed
        return allowed

    def settle(self, reserved: int, usage: TokenUsage) -> None:
        """Gives a reservation back for what was really used."""
        self._reserved -= reserved
        self.usage += usage


class MeteredLanguageModel:
    """A language model whose every completion is paid from a budget.

    `failure` is the last error of a model that was unavailable: a failed tool call carries only its text.
    """

    def __init__(self, llm: LanguageModel, budget: Budget) -> None:
        self._llm = llm
        self._budget = budget
        self.failure: LanguageModelUnavailable | None = None

    async def stream(
        self, messages: Sequence[Message], options: CompletionOptions
    ) -> AsyncGenerator[CompletionChunk, None]:
        prompt_tokens = sum(await self._llm.count_tokens([message.content for message in messages]))
        allowed = self._budget.reserve(prompt_tokens, options.max_tokens)
        bounded = replace(options, max_tokens=allowed, timeout_s=self._budget.remaining_s)
        pieces = 0
        usage: TokenUsage | None = None
        try:
            async with aclosing(self._llm.stream(messages, bounded)) as chunks:
                async for chunk in chunks:
                    pieces += bool(chunk.text)
                    usage = chunk.usage or usage
                    yield chunk
        except LanguageModelUnavailable as error:
            self._budget.check()  # a passed deadline shows as a model that did not answer in time
            self.failure = error
            raise
        finally:
            # a stream that was cut tells no usage: what it prefilled and sent was spent all the same
            self._budget.settle(prompt_tokens + allowed, usage or TokenUsage(prompt_tokens, pieces, calls=1))

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return await self._llm.count_tokens(texts)

    async def context_window(self) -> int:
        return await self._llm.context_window()
