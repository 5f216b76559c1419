"""How much of a conversation a prompt remembers: its newest exchanges, within a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_agents.llm.base import Message

MESSAGE_OVERHEAD = 8
"""Tokens that a chat template puts around one message, and before the reply, at most."""
MAX_CHARS_PER_TOKEN = 16
"""Running text has three to six, code with its indentation up to ten."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a prompt holds of the turns before its question."""

    turns: int = 0
    left_out: int = 0
    """Older turns that are not in it."""
    tokens: int = 0

    def notes(self) -> tuple[str, ...]:
        """For people; nothing where all turns are there."""
        if not self.left_out:
            return ()
        count = "1 earlier turn" if self.left_out == 1 else f"The {self.left_out} earliest turns"
        return (f"{count} of the conversation left out, as it is longer than what is read of one.",)


def spoken(history: Sequence[Message]) -> tuple[Message, ...]:
    """The turns from the user's first on: without system messages, and without a greeting that answers nobody."""
    turns = tuple(turn for turn in history if turn.role != "system")
    first = next((place for place, turn in enumerate(turns) if turn.role == "user"), len(turns))
    return turns[first:]


def newest_within(history: Sequence[Message], tokens: int) -> tuple[Message, ...]:
    """The newest turns that could fit, by their length: what could not is never sent to be counted."""
    left = tokens
    for number, turn in enumerate(reversed(history)):
        left -= MESSAGE_OVERHEAD + len(turn.content) // MAX_CHARS_PER_TOKEN
        if left < 0:
            return tuple(history[len(history) - number :])
    return tuple(history)


def newest_exchanges(roles: Sequence[str], sizes: Sequence[int], room: int) -> int:
    """How many of the newest turns fit.

    An exchange, from a user's turn to the last that answers it, goes in whole or not at all: an answer without its
    question, or half of either, would say something that nobody said.
    """
    fitting, taken = 0, 0
    for number, (role, size) in enumerate(zip(reversed(roles), reversed(sizes), strict=True), 1):
        taken += size
        if taken > room:
            break
        if role == "user":
            fitting = number
    return fitting
