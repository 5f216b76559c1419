"""Token counts where the server cannot tell, and a bounded memory of those it told."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict

_RUN = re.compile(r"[A-Za-z]+|\s+|[\x00-\x7f]|[^\x00-\x7f]")
LETTERS_PER_TOKEN = 3


def estimate_tokens(text: str) -> int:
    """An over-estimate for running text in byte-level vocabularies of 30,000 tokens and more.

    Words count a token for every three letters begun, digits and signs one each, other scripts one for each byte:
    a small vocabulary falls back to bytes there.
    """
    return sum(map(_run_tokens, _RUN.findall(text)))


def _run_tokens(run: str) -> int:
    if run.isspace():
        return 1 if len(run) > 1 or run != " " else 0  # a single space belongs to the word after it
    if run.isascii():
        return -(-len(run) // LETTERS_PER_TOKEN)
    return len(run.encode("utf-8", "replace"))


class TokenCounts:
    """The counts of the texts counted last; system prompts and passages come back often."""

    def __init__(self, size: int = 2048) -> None:
        self._size = size
        self._counts: OrderedDict[bytes, int] = OrderedDict()

    def get(self, text: str) -> int | None:
        key = _key(text)
        if key not in self._counts:
            return None
        self._counts.move_to_end(key)
        return self._counts[key]

    def put(self, text: str, count: int) -> None:
        self._counts[_key(text)] = count
        if len(self._counts) > self._size:
            self._counts.popitem(last=False)


def _key(text: str) -> bytes:
    # a digest, so that long texts are not kept alive
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
