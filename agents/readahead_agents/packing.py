"""Fits a prompt into the context window by the served model's own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from readahead_agents.errors import LanguageModelRefused
from readahead_agents.llm import LanguageModel, Message
from readahead_agents.passages import blocks
from readahead_agents.prompts import prompt
from readahead_retrieval.types import Evidence

MESSAGE_OVERHEAD = 8
"""Tokens that a chat template puts around one message, and before the reply, at most."""


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What a prompt is made of, in its order: the static first, the question last."""

    system: str
    history: tuple[Message, ...]
    passages: tuple[Evidence, ...]
    question: str
    user_template: str = "answer_user"
    findings: str = ""
    """What earlier steps wrote, where the template has a place for it."""

    def messages(self) -> list[Message]:
        parts = {"passages": blocks(self.passages), "findings": self.findings, "question": self.question}
        user = prompt(self.user_template).substitute(parts)
        return [Message("system", self.system), *self.history, Message("user", user)]


@dataclass(frozen=True, slots=True)
class PackedPrompt:
    """A prompt that fits, and what was left out for it."""

    messages: tuple[Message, ...]
    passages: tuple[Evidence, ...]
    """Those in the prompt, in the order of their numbers."""
    dropped_turns: int
    dropped_passages: int
    prompt_tokens: int

    def notes(self) -> tuple[str, ...]:
        """What was left out, for people; nothing where all fitted."""
        told = []
        if self.dropped_turns:
            told.append(f"{self.dropped_turns} earlier turns of the conversation did not fit the context window.")
        if self.dropped_passages:
            told.append(f"{self.dropped_passages} passages found did not fit the prompt.")
        return tuple(told)


async def pack(llm: LanguageModel, parts: PromptParts, *, max_tokens: int, evidence_tokens: int) -> PackedPrompt:
    """Shrinks a prompt until it and `max_tokens` of reply fit the window.

    The order is declared: first the passages are cut to `evidence_tokens`, best kept; then old turns go, oldest
    first; then passages, worst first, down to one. The system text and the question are never cut.

    Raises:
        LanguageModelRefused: With code context_length_exceeded, when even that is too long.
    """
    window = await llm.context_window()
    packed = replace(parts, passages=await _within(llm, parts.passages, evidence_tokens))
    size = await _size(llm, packed)
    while size + max_tokens > window:
        smaller = _shrink(packed)
        if smaller is None:
            raise _too_long(size, max_tokens, window)
        packed = smaller
        size = await _size(llm, packed)
    return PackedPrompt(
        messages=tuple(packed.messages()),
        passages=packed.passages,
        dropped_turns=len(parts.history) - len(packed.history),
        dropped_passages=len(parts.passages) - len(packed.passages),
        prompt_tokens=size,
    )


def _shrink(parts: PromptParts) -> PromptParts | None:
    """The next smaller prompt in the declared order."""
    if parts.history:
        return replace(parts, history=parts.history[1:])
    if len(parts.passages) > 1:
        return replace(parts, passages=parts.passages[:-1])
    return None


async def _within(llm: LanguageModel, passages: Sequence[Evidence], tokens: int) -> tuple[Evidence, ...]:
    """The best passages whose blocks take no more than `tokens` together; always the first."""
    kept: list[Evidence] = []
    used = 0
    for passage in passages:
        used += await llm.count_tokens(blocks([passage]))
        if kept and used > tokens:
            break
        kept.append(passage)
    return tuple(kept)


async def _size(llm: LanguageModel, parts: PromptParts) -> int:
    """Tokens of the prompt as the template renders it, never fewer than the server will count."""
    messages = parts.messages()
    counts = [await llm.count_tokens(message.content) for message in messages]
    return sum(counts) + MESSAGE_OVERHEAD * (len(messages) + 1)


def _too_long(size: int, max_tokens: int, window: int) -> LanguageModelRefused:
    message = (
        f"The question with its best passage takes about {size} tokens and the answer {max_tokens}, but the model's "
        f"context window is {window} tokens. Shorten the question, or ask for fewer answer tokens."
    )
    return LanguageModelRefused(message, status=400, code="context_length_exceeded", param="messages")
