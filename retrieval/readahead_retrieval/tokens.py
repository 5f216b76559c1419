"""The seam for counting tokens: chunk sizes and context budgets are in tokens of a real model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer


class TokenCounter(Protocol):
    """Counts tokens without calling a model. Cheap, thread-safe, never raises on any text."""

    def count(self, text: str) -> int:
        """Tokens of `text`, without special tokens."""
        ...


class PortableCounter(TokenCounter, Protocol):
    """One that can be made again in another process."""

    def definition(self) -> str:
        """What `counter_of` makes it from."""
        ...


class TokenizerCounter:
    """Counts with the tokenizer of the model itself."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        # A tokenizer.json may carry truncation and padding, which would make long and short texts count alike.
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer

    @classmethod
    def from_file(cls, tokenizer_json: Path) -> TokenizerCounter:
        """Reads a `tokenizer.json`; raises FileNotFoundError where there is none."""
        if not tokenizer_json.is_file():
            raise FileNotFoundError(tokenizer_json)
        return cls(Tokenizer.from_file(str(tokenizer_json)))

    def definition(self) -> str:
        """The text of a tokenizer.json."""
        return self._tokenizer.to_str()

    def count(self, text: str) -> int:
        # The tokenizer takes UTF-8, which has no lone surrogates.
        sound = text.encode("utf-8", errors="replace").decode("utf-8")
        return len(self._tokenizer.encode(sound, add_special_tokens=False).ids)


_RUNS = re.compile(r"[A-Za-z]+|\s+|.", re.DOTALL)


class EstimatedCounter:
    """Counts too many rather than too few, for models whose tokenizer is not at hand.

    Vocabularies in use spend about a token on four Latin letters, and one on a digit or a mark; on a letter of Korean,
    Chinese or Japanese they spend one to three, at most one for each of its bytes.
    """

    def definition(self) -> str:
        """Empty: there is only one."""
        return ""

    def count(self, text: str) -> int:
        return sum(map(_estimate, _RUNS.findall(text)))


def _estimate(run: str) -> int:
    if run.isspace():
        return run.count("\n")
    if run.isascii():
        return -(-len(run) // 3)
    return len(run.encode("utf-8", errors="replace"))


def counter_of(definition: str) -> PortableCounter:
    """The counter that gave this definition."""
    return TokenizerCounter(Tokenizer.from_str(definition)) if definition else EstimatedCounter()
