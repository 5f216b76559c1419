"""Fits a prompt into the context window by the served model's own tokenizer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from readahead_agents.errors import LanguageModelRefused
from readahead_agents.excerpt import Excerpts, excerpts
from readahead_agents.llm import LanguageModel, Message
from readahead_agents.passages import blocks
from readahead_agents.prompts import prompt
from readahead_retrieval.types import Evidence

MESSAGE_OVERHEAD = 8
"""Tokens that a chat template puts around one message, and before the reply, at most."""

MIN_EVIDENCE_TOKENS = 24
"""Below this a passage says nothing."""


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What a prompt is made of, in its order: the static first, the question last."""

    system: str
    history: tuple[Message, ...]
    passages: tuple[Evidence, ...]
    question: str
    template: str = "answer_user"
    findings: str = ""
    """What earlier steps wrote, where the template has a place for it."""

    def messages(self, shown: Excerpts) -> tuple[Message, ...]:
        parts = {
            "passages": blocks(shown.passages, shown.texts),
            "findings": self.findings,
            "question": self.question,
        }
        user = prompt(self.template).substitute(parts)
        return (Message("system", self.system), *self.history, Message("user", user))


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
            told.append(f"{self.dropped_passages} passages found did not fit the context window.")
        return tuple(told)


async def pack(llm: LanguageModel, parts: PromptParts, *, max_tokens: int, evidence_tokens: int) -> PackedPrompt:
    """Shrinks a prompt until it and `max_tokens` of reply fit the window.

    The passages are cut to `evidence_tokens` first. What is still too long is shrunk in a declared order: old turns
    go, oldest first; then passages, worst first; then the last one is cut to its best statements. The system text and
    the question are never cut.

    Raises:
        LanguageModelRefused: With code context_length_exceeded, when even that is too long.
    """
    window = await llm.context_window()
    found = await excerpts(llm, parts.question, parts.passages, evidence_tokens)
    packed, shown, room = parts, found, evidence_tokens
    messages = packed.messages(shown)
    while (size := await _size(llm, messages)) + max_tokens > window:
        if packed.history:
            packed = replace(packed, history=packed.history[1:])
        elif len(shown) > 1:
            shown = shown.first(len(shown) - 1)
        elif room > MIN_EVIDENCE_TOKENS:
            room = min(room, window) * 3 // 4
            shown = await excerpts(llm, parts.question, shown.passages, room)
        else:
            raise _too_long(size, max_tokens, window)
        messages = packed.messages(shown)
    return PackedPrompt(
        messages=messages,
        passages=shown.passages,
        dropped_turns=len(parts.history) - len(packed.history),
        dropped_passages=len(found) - len(shown),
        prompt_tokens=size,
    )


async def _size(llm: LanguageModel, messages: tuple[Message, ...]) -> int:
    """Tokens of the prompt as the chat template renders it, never fewer than the server will count."""
    counts = [await llm.count_tokens(message.content) for message in messages]
    return sum(counts) + MESSAGE_OVERHEAD * (len(messages) + 1)


def _too_long(size: int, max_tokens: int, window: int) -> LanguageModelRefused:
    message = (
        f"The question with its best passage takes about {size} tokens and the answer {max_tokens}, but the model's "
        f"context window is {window} tokens. Shorten the question, or ask for fewer answer tokens."
    )
    return LanguageModelRefused(message, status=400, code="context_length_exceeded", param="messages")
