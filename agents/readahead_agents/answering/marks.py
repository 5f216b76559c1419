"""Quotation marks in what a model writes: they stay only around words that stand in a passage."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_retrieval.types import Evidence

MIN_WORDS = 3
"""What is shorter between marks is a name or a button, and no quotation."""

_PAIRED = re.compile(r"“([^“”]*)”|(?<![\w\d])\"([^\"]*)\"(?!\w)")
_OPEN = re.compile(r"^(\s*)[“\"](?=\w)|“(?=[^”]*$)")
_CLOSED = re.compile(r"(?<=[.!?,\w])[”\"](\s*)$|(?<!\d)”")


def without_false_marks(sentence: str, passages: Sequence[Evidence]) -> str:
    """The sentence without the marks around what no passage has word for word, and without marks that have no other.

    A sentence is all that is seen of a text at once: of a quotation over several, the marks go.
    """
    texts = [_squeezed(passage.text) for passage in passages]
    kept: list[str] = []
    done = 0
    for match in _PAIRED.finditer(sentence):
        said = match.group(1) if match.group(1) is not None else match.group(2)
        kept.append(_without_halves(sentence[done : match.start()]))
        kept.append(match.group() if _stands(said, texts) else said)
        done = match.end()
    return "".join(kept) + _without_halves(sentence[done:])


def _stands(said: str, texts: Sequence[str]) -> bool:
    words = _squeezed(said)
    return len(words.split()) < MIN_WORDS or any(words.rstrip(".,;:!?") in text for text in texts)


def _without_halves(text: str) -> str:
    return _CLOSED.sub(r"\1", _OPEN.sub(r"\1", text))


def _squeezed(text: str) -> str:
    return " ".join(text.split()).casefold()
