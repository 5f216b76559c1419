"""Prompts that begin with documents which the model has read already: only what follows them is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_agents.answering.packing import PackedPrompt
from readahead_agents.llm.base import LanguageModel, Message
from readahead_agents.memory.recent import MESSAGE_OVERHEAD, Remembered, newest_exchanges, newest_within, spoken
from readahead_retrieval.types import Evidence

MIN_REPLY_TOKENS = 64


@dataclass(frozen=True, slots=True)
class HeldPack:
    """The messages that a pack was built from, and the tokens that they take."""

    messages: tuple[Message, ...]
    tokens: int


async def prompt_on_pack(
    llm: LanguageModel,
    pack: HeldPack,
    asked: str,
    evidence: Sequence[Evidence],
    max_tokens: int,
    *,
    least: int = MIN_REPLY_TOKENS,
    history: Sequence[Message] = (),
    history_tokens: int = 0,
) -> PackedPrompt | None:
    """The pack, the newest turns and what is asked; None where pack and question leave no room for a reply.

    The turns stand behind the documents, whose keys and values are then those of every conversation.

    Args:
        evidence: What the reply is judged and cited by; no part of the prompt.
        least: Tokens that a reply needs, where it may take so many.
        history: Earlier turns; the oldest are left out where they are over `history_tokens` or the window is too small.
            System messages in it are the client's own instructions and stand with the question.
    """
    window, turns, least = await llm.context_window(), spoken(history), min(max_tokens, least)
    question = Message("user", with_instructions(history, asked))
    kept = newest_within(turns, min(history_tokens, window - pack.tokens))
    counts = await llm.count_tokens([turn.content for turn in (*kept, question)])
    *sizes, size = [count + MESSAGE_OVERHEAD for count in counts]
    left = window - pack.tokens - size - MESSAGE_OVERHEAD
    if left < least:
        return None
    room = left - min(max_tokens, max(least, left // 2))
    fitting = newest_exchanges([turn.role for turn in kept], sizes, min(history_tokens, room))
    history_size = sum(sizes[len(sizes) - fitting :])
    return PackedPrompt(
        messages=(*pack.messages, *kept[len(kept) - fitting :], question),
        passages=tuple(evidence),
        remembered=Remembered(fitting, len(turns) - fitting, history_size),
        dropped_passages=0,
        prompt_tokens=window - left + history_size,
        max_tokens=min(max_tokens, left - history_size),
        asked_tokens=max_tokens,
    )


def with_instructions(history: Sequence[Message], asked: str) -> str:
    """The client's own instructions, then what is asked."""
    return "\n\n".join([*(turn.content for turn in history if turn.role == "system"), asked])
