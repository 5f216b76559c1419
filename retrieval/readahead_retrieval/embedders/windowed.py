"""An embedder that takes texts of any length."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal

from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.tokens import TokenCounter

_SPECIAL_TOKENS = 2
"""The model puts one before a text and one after it."""
_WORD_END = re.compile(r"\s|$")


class WindowedEmbedder:
    """Wraps an embedder that refuses what is over its window, and embeds the beginning of such a text instead.

    A question may be a pasted page, and a sentence of an answer may go on for ever; chunks fit by construction.

    Args:
        embedder: Does the work.
        counter: Counts as the embedder's model does, or more.
    """

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        self._embedder = embedder
        self._counter = counter

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int:
        return self._embedder.max_tokens

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        """As the wrapped one, without its bound on a text's length."""
        limit = self.max_tokens - _SPECIAL_TOKENS
        # A batch of passages takes tens of milliseconds to count.
        fitting = await asyncio.to_thread(lambda: [clipped(text, self._counter, limit) for text in texts])
        return await self._embedder.embed(fitting, kind)


def clipped(text: str, counter: TokenCounter, limit: int) -> str:
    """The longest beginning of `text`, in whole words where there are any, that is at most `limit` tokens."""
    if counter.count(text) <= limit:
        return text
    ends = [match.start() for match in _WORD_END.finditer(text)]
    best = _last_within(text, ends, counter, limit)
    return text[:best] if best else text[: _last_within(text, list(range(1, len(text))), counter, limit)]


def _last_within(text: str, ends: Sequence[int], counter: TokenCounter, limit: int) -> int:
    """The largest of `ends` before which at most `limit` tokens stand; 0 when even the first is too far."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if counter.count(text[: ends[middle]]) <= limit:
            low = middle + 1
        else:
            high = middle
    return ends[low - 1] if low else 0
