"""A `LanguageModel` that says what it was told to say: for tests, and for trying the agent without a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from readahead_agents.errors import LanguageModelError
from readahead_agents.llm.base import CompletionChunk, CompletionOptions, Message, TokenUsage

Script = Callable[[Sequence[Message], CompletionOptions], str | LanguageModelError]
_PIECE = re.compile(r"\s*\S{1,4}|\s+$")


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One completion that was asked for."""

    messages: tuple[Message, ...]
    options: CompletionOptions

    @property
    def prompt(self) -> str:
        return "\n".join(message.content for message in self.messages)


@dataclass(slots=True)
class ScriptedLanguageModel:
    """Replies by `script`, or the given texts in turn (the last one again and again). A token is a word.

    A reply is streamed in pieces of a few characters, so that anything that looks for patterns in a stream meets
    them cut apart. A reply that is an error is raised.
    """

    script: Script | Sequence[str | LanguageModelError]
    window: int = 8192
    hold: Callable[[ScriptedCall], Awaitable[object]] | None = None
    """Where given, every reply waits for it after its first piece."""
    calls: list[ScriptedCall] = field(default_factory=list)
    counted: list[tuple[str, ...]] = field(default_factory=list)
    """Texts whose tokens were asked for, by request."""
    running: int = 0
    """Streams that are open now."""
    peak: int = 0
    """Most streams open at a time."""
    abandoned: int = 0
    """Streams closed before their end."""

    async def stream(
        self, messages: Sequence[Message], options: CompletionOptions
    ) -> AsyncGenerator[CompletionChunk, None]:
        reply = self._reply(messages, options)
        call = ScriptedCall(tuple(messages), options)
        self.calls.append(call)
        if isinstance(reply, LanguageModelError):
            raise reply
        self.running += 1
        self.peak = max(self.peak, self.running)
        finished = False
        try:
            async for chunk in self._pieces(reply, call):
                yield chunk
            finished = True
        finally:
            self.running -= 1
            self.abandoned += not finished

    async def count_tokens(self, texts: Sequence[str]) -> list[int]:
        self.counted.append(tuple(texts))
        return [len(text.split()) for text in texts]

    async def context_window(self) -> int:
        return self.window

    def _reply(self, messages: Sequence[Message], options: CompletionOptions) -> str | LanguageModelError:
        if callable(self.script):
            return self.script(messages, options)
        return self.script[min(len(self.calls), len(self.script) - 1)]

    async def _pieces(self, reply: str, call: ScriptedCall) -> AsyncGenerator[CompletionChunk, None]:
        words = reply.split(" ")
        limit = call.options.max_tokens
        text = " ".join(words[:limit])
        for number, match in enumerate(_PIECE.finditer(text)):
            yield CompletionChunk(match.group())
            await asyncio.sleep(0)  # lets streams that run side by side take turns
            if number == 0 and self.hold is not None:
                await self.hold(call)
        usage = TokenUsage(len(call.prompt.split()), len(text.split()), calls=1)
        yield CompletionChunk("", "length" if len(words) > limit else "stop", usage)
