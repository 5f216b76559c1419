"""The seam for counting tokens: chunk sizes and context budgets are in tokens of a real model."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

KNOWN_SHARE = 0.5
"""Of a text's letters: of Korean and Russian an English model's vocabulary holds next to none, of English all but some
in the codes of parts. Chinese and Japanese it may hold sign by sign, which counts as known."""
_UNKNOWN_TOKENS = frozenset({"[UNK]", "<unk>", "<UNK>"})


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

    def knows(self, text: str) -> bool:
        """Whether the model has words, or parts of them, for the script of a text; True where that can't be told."""
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
        return len(self._tokenizer.encode(_sound(text), add_special_tokens=False).ids)

    def knows(self, text: str) -> bool:
        """By the share of letters that the tokenizer keeps together with others: it spells what it does not know, by
        letters, parts of a letter or bytes, or has one token for all that it cannot spell."""
        text = _sound(text)
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        spans = zip(encoded.tokens, encoded.offsets, strict=True)
        tokens_of = Counter(place for _, (start, end) in spans for place in range(start, end))
        known = 0
        for token, (start, end) in zip(encoded.tokens, encoded.offsets, strict=True):
            places = [place for place in range(start, end) if text[place].isalpha() and tokens_of[place] == 1]
            if token not in _UNKNOWN_TOKENS and (
                len(places) > 1 or all(_stands_alone(text, place) for place in places)
            ):
                known += len(places)
        return known >= KNOWN_SHARE * sum(map(str.isalpha, text))


def _sound(text: str) -> str:
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _stands_alone(text: str, place: int) -> bool:
    """Whether a letter says something by itself: a syllable or an ideograph, or one between others than letters."""
    around = text[max(place - 1, 0) : place] + text[place + 1 : place + 2]
    return unicodedata.east_asian_width(text[place]) == "W" or not any(map(str.isalpha, around))


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

    def knows(self, text: str) -> bool:
        return True


def _estimate(run: str) -> int:
    if run.isspace():
        return run.count("\n")
    if run.isascii():
        return -(-len(run) // 3)
    return len(run.encode("utf-8", errors="replace"))


def counter_of(definition: str) -> PortableCounter:
    """The counter that gave this definition."""
    return TokenizerCounter(Tokenizer.from_str(definition)) if definition else EstimatedCounter()
