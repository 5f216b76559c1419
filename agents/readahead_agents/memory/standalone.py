"""Makes a follow-up stand by itself, so that a search, a plan and a reader know what it is about."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from readahead_agents.errors import LanguageModelError
from readahead_agents.llm.base import LanguageModel, Message, TokenUsage
from readahead_agents.memory.follow_up import joined, leans
from readahead_agents.memory.model_rewrite import rewritten

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standalone:
    """A question without need of its conversation."""

    question: str
    by: Literal["rules", "model"] | None = None
    """What made it; None for a question as it was asked."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    """What the model spent on it."""


async def standalone(
    llm: LanguageModel, question: str, history: Sequence[Message], how: Literal["rules", "model", "off"]
) -> Standalone:
    """The question as it is where it stands by itself, or where nothing was asked before.

    The model is asked once at most, and not for its opinion on whether: a weak one rewrites what needs none. Where its
    text is not faithful, or the model fails, the rules have the word.
    """
    asked_before = any(turn.role == "user" for turn in history)
    if how == "off" or not asked_before or not leans(question):
        return Standalone(question)
    usage = TokenUsage()
    if how == "model":
        try:
            rewrite, usage = await rewritten(llm, question, history)
        except LanguageModelError as error:  # whether the answer fails too, the answer tells
            _log.warning("A follow-up could not be rewritten by the model: %s", error.message)
        else:
            if rewrite is not None:
                return Standalone(rewrite, "model", usage)
    together = joined(question, history)
    return Standalone(together, "rules" if together != question else None, usage)
