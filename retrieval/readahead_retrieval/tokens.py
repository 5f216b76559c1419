"""The seam for counting tokens: chunk sizes and context budgets are in tokens of a real model."""

from __future__ import annotations

from typing import Protocol


class TokenCounter(Protocol):
    """Counts tokens without calling a model. Cheap, thread-safe, never raises on any text."""

    def count(self, text: str) -> int:
        """Tokens of `text`, without special tokens."""
        ...
