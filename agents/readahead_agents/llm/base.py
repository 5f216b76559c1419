"""The seam to language models: the OpenAI API, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What calls have cost, as the server counted it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt tokens, those that the server did not compute."""
    calls: int = 0
    """Completions."""

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that were computed."""
        return self.prompt_tokens - self.cached_tokens

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.calls + other.calls,
        )


@dataclass(frozen=True, slots=True)
class CompletionOptions:
    """How one completion is asked for."""

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    json_schema: dict[str, Any] | None = None
    """The completion must satisfy it (constrained decoding)."""
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CompletionChunk:
    """A piece of a streamed completion; the last one carries `finish_reason` and `usage`.

    An earlier one may carry the usage so far, for streams that are cut.
    """

    text: str
    finish_reason: str | None = None
    usage: TokenUsage | None = None


class LanguageModel(Protocol):
    """A chat model. Closing the iterator ends the work at the server. Raises `LanguageModelError`s only."""

    def stream(
        self, messages: Sequence[Message], options: CompletionOptions
    ) -> AsyncGenerator[CompletionChunk, None]: ...

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text by the model's tokenizer, or a safe over-estimate where the server cannot tell.

        However many texts there are, the server is asked a bounded number of times.
        """
        ...

    async def context_window(self) -> int:
        """Tokens that prompt and completion may have together."""
        ...
