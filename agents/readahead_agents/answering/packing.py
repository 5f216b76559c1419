"""Fits a prompt into the context window by the served model's own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from readahead_agents.answering.excerpt import Excerpts, excerpts
from readahead_agents.answering.passages import blocks
from readahead_agents.answering.statements import NOT_COMPARED, Near
from readahead_agents.errors import LanguageModelRefused
from readahead_agents.llm.base import LanguageModel, Message
from readahead_agents.memory.recent import MESSAGE_OVERHEAD, Remembered, newest_exchanges, newest_within, spoken
from readahead_agents.prompts import prompt
from readahead_retrieval.types import Evidence

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
    reader: str = ""
    """Whom the answer is for; behind the question, which it is no part of."""
    near: Near = NOT_COMPARED
    """Of the passages' statements."""

    def messages(self, shown: Excerpts) -> tuple[Message, ...]:
        return (Message("system", self.system), *self.history, self.user(shown))

    def user(self, shown: Excerpts) -> Message:
        """The question with its passages."""
        parts = {
            "passages": blocks(shown.passages, shown.texts),
            "findings": self.findings,
            "question": f"{self.question}{self.reader}",
        }
        return Message("user", prompt(self.template).substitute(parts))


@dataclass(frozen=True, slots=True)
class PackedPrompt:
    """A prompt that fits, and what was left out for it."""

    messages: tuple[Message, ...]
    passages: tuple[Evidence, ...]
    """Those in the prompt, in the order of their numbers."""
    remembered: Remembered
    dropped_passages: int
    prompt_tokens: int
    max_tokens: int
    """Tokens that the reply may take."""
    asked_tokens: int
    """Tokens that were asked for it."""
    near: Near = NOT_COMPARED
    """Of the passages' statements, for whoever quotes them."""

    def notes(self) -> tuple[str, ...]:
        """What was left out, for people; nothing where all fitted."""
        told = [*self.remembered.notes()]
        if self.dropped_passages:
            told.append(f"{self.dropped_passages} passages found did not fit the context window.")
        if self.max_tokens < self.asked_tokens:
            told.append(
                f"The answer was given {self.max_tokens} tokens and not {self.asked_tokens}, as the context window "
                "holds no more."
            )
        return tuple(told)


async def pack(
    llm: LanguageModel, parts: PromptParts, *, max_tokens: int, evidence_tokens: int, history_tokens: int = 0
) -> PackedPrompt:
    """Shrinks a prompt until it and `max_tokens` of reply fit the window.

    The passages are cut to `evidence_tokens` first, and the history to `history_tokens`. What is still too long is
    shrunk in a declared order: old exchanges go, oldest first; then passages, worst first; then the last one is cut to
    its best statements. The system text and the question are never cut. A reply is not kept more than half of the
    window free; it may take what is left.

    Each message is counted once, and the server asked a bounded number of times, however long the history is.

    Raises:
        LanguageModelRefused: With code context_length_exceeded, when even that is too long.
    """
    window = await llm.context_window()
    room = window - min(max_tokens, window // 2)
    found = await excerpts(llm, parts.question, parts.passages, evidence_tokens, parts.near)
    history = spoken(parts.history)
    kept = newest_within(history, min(history_tokens, room))
    *turns, system, user = await _sizes(llm, [*kept, Message("system", parts.system), parts.user(found)])
    fixed = system + MESSAGE_OVERHEAD
    fitting = newest_exchanges([turn.role for turn in kept], turns, min(history_tokens, room - fixed - user))
    packed, history_size = replace(parts, history=kept[len(kept) - fitting :]), sum(turns[len(turns) - fitting :])
    shown = found
    if fixed + user > room:
        shown, user = await _fewer_passages(llm, parts, found, room - fixed)
    size = fixed + user + history_size
    if size > room:
        raise _too_long(size, min(max_tokens, window // 2), window)
    return PackedPrompt(
        messages=packed.messages(shown),
        passages=shown.passages,
        remembered=Remembered(fitting, len(history) - fitting, history_size),
        dropped_passages=len(found) - len(shown),
        prompt_tokens=size,
        max_tokens=min(max_tokens, window - size),
        asked_tokens=max_tokens,
        near=parts.near,
    )


async def _fewer_passages(llm: LanguageModel, parts: PromptParts, found: Excerpts, room: int) -> tuple[Excerpts, int]:
    """The most of the best passages that fit, and the size of the message; the best statements of the best one where
    it does not fit whole."""
    fits, over = 0, len(found)
    best: tuple[Excerpts, int] | None = None
    while over - fits > 1:
        middle = (fits + over) // 2
        shown = found.first(middle)
        [size] = await _sizes(llm, [parts.user(shown)])
        if size <= room:
            fits, best = middle, (shown, size)
        else:
            over = middle
    if best is not None:
        return best
    shown, tokens = found.first(1), max(room, MIN_EVIDENCE_TOKENS)
    [size] = await _sizes(llm, [parts.user(shown)])
    while size > room and shown and tokens > MIN_EVIDENCE_TOKENS:
        tokens = tokens * 3 // 4
        shown = await excerpts(llm, parts.question, shown.passages, tokens, parts.near)
        [size] = await _sizes(llm, [parts.user(shown)])
    return shown, size


async def _sizes(llm: LanguageModel, messages: Sequence[Message]) -> list[int]:
    """Tokens of each message as the chat template renders it, never fewer than the server will count."""
    counts = await llm.count_tokens([message.content for message in messages])
    return [count + MESSAGE_OVERHEAD for count in counts]


def _too_long(size: int, max_tokens: int, window: int) -> LanguageModelRefused:
    message = (
        f"The question with its best passage takes about {size} tokens and the answer {max_tokens}, but the model's "
        f"context window is {window} tokens. Shorten the question, or ask for fewer answer tokens."
    )
    return LanguageModelRefused(message, status=400, code="context_length_exceeded", param="messages")
