"""Prompts that begin with documents which the model has read already: only what follows them is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_agents.answering.packing import PackedPrompt
from readahead_agents.llm.base import LanguageModel, Message
from readahead_agents.memory.recent import MESSAGE_OVERHEAD, Remembered
from readahead_retrieval.types import Evidence

MIN_REPLY_TOKENS = 64


@dataclass(frozen=True, slots=True)
class HeldPack:
    """The messages that a pack was built from, and the tokens that they take."""

    messages: tuple[Message, ...]
    tokens: int


async def prompt_on_pack(
    llm: LanguageModel, pack: HeldPack, asked: str, evidence: Sequence[Evidence], max_tokens: int
) -> PackedPrompt | None:
    """The pack and what is asked of it; None where they leave no room for a reply.

    Args:
        evidence: What the reply is judged and cited by; no part of the prompt.
    """
    [size] = await llm.count_tokens([asked])
    taken = pack.tokens + size + 2 * MESSAGE_OVERHEAD
    left = await llm.context_window() - taken
    if left < min(max_tokens, MIN_REPLY_TOKENS):
        return None
    return PackedPrompt(
        messages=(*pack.messages, Message("user", asked)),
        passages=tuple(evidence),
        remembered=Remembered(),
        dropped_passages=0,
        prompt_tokens=taken,
        max_tokens=min(max_tokens, left),
        asked_tokens=max_tokens,
    )
