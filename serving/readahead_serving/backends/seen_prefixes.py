"""A guess at what an engine's cache holds, made outside it from the prompts it has computed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

BLOCK_TOKENS = 128
"""Prompts are compared in blocks of this many tokens."""


class SeenPrefixes:
    """Which leading blocks of prompts were computed lately. It predicts times; it never decides what is reused.

    Args:
        max_blocks: Blocks remembered; the least recently used are forgotten.
    """

    def __init__(self, max_blocks: int) -> None:
        self._max_blocks = max_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def add(self, salt: str, token_ids: Sequence[int]) -> None:
        """Notes a prompt whose keys and values the cache now holds."""
        for key in _keys(salt, token_ids):
            self._blocks[key] = None
            self._blocks.move_to_end(key)
        while len(self._blocks) > self._max_blocks:
            self._blocks.popitem(last=False)

    def length(self, salt: str, token_ids: Sequence[int]) -> int:
        """Leading tokens of a prompt that have been seen under the same salt."""
        blocks = 0
        for key in _keys(salt, token_ids):
            if key not in self._blocks:
                break
            blocks += 1
        return blocks * BLOCK_TOKENS


def _keys(salt: str, token_ids: Sequence[int]) -> Iterator[int]:
    """A key for each whole block, which stands for all tokens up to its end."""
    key = hash(salt)
    for start in range(0, len(token_ids) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        key = hash((key, *token_ids[start : start + BLOCK_TOKENS]))
        yield key
