"""Ranks the statements of passages by a question: for excerpts where the budget is small, and for quotations."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from readahead_agents.text import sentences, words
from readahead_retrieval.types import Evidence

MAX_STATEMENT_CHARS = 400
STEM_CHARS = 5
"""Words are compared by their beginnings, so that "leaves" finds "leaving"."""
_CELL = "|"
_ENDED = re.compile(r"[.!?。！？][\"'”’)\]]*$")
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|high|thick|deep|far|old|fast|loud|often|late|early)\b|\bwhen\b|\buntil\b|"
    r"\b(?:what|which) (?:share|price|cost|number|rate|rating|limit|time|date|day|year)\b|몇|얼마|언제",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A run of one or two sentences, or a row of a table: `passages[rank].text[start:end]`."""

    rank: int
    start: int
    end: int
    score: float


def ranked(question: str, passages: Sequence[Evidence]) -> Iterator[Statement]:
    """The statements of all passages, best first, none overlapping a better one.

    The score is the weight of the question's words in the statement (rare ones among the passages weigh more), a
    little more where a number is asked for and there is one, over the statement's length and the passage's rank.
    """
    weights = _weights(question, passages)
    wants_number = asks_number(question)
    asked_numbers = set(re.findall(r"\d+", question))
    found = []
    for rank, passage in enumerate(passages):
        for start, end in _spans(passage.text):
            text = passage.text[start:end]
            held = _stems(text)
            weight = sum(weights.get(stem, 0.0) for stem in held)
            if wants_number and set(re.findall(r"\d+", text)) - asked_numbers:
                weight *= 1.25
            found.append(Statement(rank, start, end, weight / (len(held) + 6) ** 0.35 / (1 + 0.15 * rank)))
    return _without_overlaps(sorted(found, key=lambda statement: -statement.score))


def asks_number(question: str) -> bool:
    """Whether the question asks for a figure, a date or a time."""
    return _ASKS_NUMBER.search(question) is not None


def _weights(question: str, passages: Sequence[Evidence]) -> dict[str, float]:
    """How much a word of the question tells, by how few of the passages hold it."""
    holding = Counter(stem for passage in passages for stem in _stems(f"{passage.heading} {passage.text}"))
    return {stem: math.log(1 + len(passages) / holding.get(stem, len(passages))) for stem in _stems(question)}


def _spans(text: str) -> list[tuple[int, int]]:
    """Statements by themselves, and pairs of them; headings go with what follows, rows stand alone."""
    parts = sentences(text)
    is_row = [_CELL in text[start:end] for start, end in parts]
    spans = []
    for number, (start, _) in enumerate(parts):
        last = number
        if is_row[number]:
            if _is_header(is_row, number):
                continue  # names without values
        else:
            while _goes_on(text, parts, is_row, last) and last < number + 2:
                last += 1
        spans.append((start, parts[last][1]))
        if not is_row[number] and last + 1 < len(parts) and not is_row[last + 1]:
            spans.append((start, parts[last + 1][1]))
    return [(start, end) for start, end in spans if end - start <= MAX_STATEMENT_CHARS] or [
        (0, min(len(text), MAX_STATEMENT_CHARS))
    ]


def _is_header(is_row: Sequence[bool], number: int) -> bool:
    """A table's first row."""
    return (number == 0 or not is_row[number - 1]) and number + 1 < len(is_row) and is_row[number + 1]


def _goes_on(text: str, parts: Sequence[tuple[int, int]], is_row: Sequence[bool], number: int) -> bool:
    """Whether a part without an end, as a heading is, is followed by text."""
    start, end = parts[number]
    return number + 1 < len(parts) and not is_row[number + 1] and _ENDED.search(text[start:end]) is None


def _without_overlaps(statements: Sequence[Statement]) -> Iterator[Statement]:
    kept: list[Statement] = []
    for statement in statements:
        if not any(_overlap(statement, other) for other in kept):
            kept.append(statement)
            yield statement


def _overlap(one: Statement, other: Statement) -> bool:
    return one.rank == other.rank and one.start < other.end and other.start < one.end


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:STEM_CHARS] for word in words(text))
