"""Ranks the statements of passages by a question: for excerpts where the budget is small, and for quotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from readahead_agents.answering.kinds import Kind, asked_kind
from readahead_agents.answering.subject import Subject
from readahead_agents.answering.units import QuestionTerms, Unit, in_forms_of
from readahead_agents.answering.units import statements as statements_of
from readahead_agents.evidence import EvidenceSource
from readahead_retrieval.relevance import key_terms
from readahead_retrieval.types import Evidence

NUMBER_FACTOR = 1.25
"""Where a number is asked for and the statement holds one."""
NEW_TERMS = 2
"""Terms beyond the question's that a statement needs to count half of its worth: one that says the question again
answers nothing."""
LENGTH_POWER = 0.2
RANK_PENALTY = 0.1
COMPARED = 24
"""Statements, the best by the words, whose cosines are asked for: more changed no answer on three sets."""
NOISE_FACTOR = 0.5
"""For lines of contents, web addresses and bibliographies."""

_NOISE = re.compile(r"(?:\. ?){4,}|https?://|\bwww\.|\bRetrieved\b|\bISBN\b|\bdoi:|\(PDF\)")
_ASKS_NUMBER = re.compile(
    r"\bhow (?:many|much|long|high|thick|deep|far|old|fast|loud|often|late|early)\b|\bwhen\b|\buntil\b|"
    r"\b(?:what|which) (?:share|price|cost|number|rate|rating|limit|time|date|day|year)\b|몇|얼마|언제",
    re.IGNORECASE,
)
_FIGURE = re.compile(r"\d+")
# but for hours and minutes, which tables write with a colon
_COUNTER = re.compile(r"몇\s?((?![시분])[가-힣])")


@dataclass(frozen=True, slots=True)
class Statement:
    """A run of one or two sentences, or a row of a table, and how well it answers the question."""

    unit: Unit
    score: float

    @property
    def rank(self) -> int:
        return self.unit.rank

    @property
    def start(self) -> int:
        return self.unit.start

    @property
    def end(self) -> int:
        return self.unit.end


@dataclass(frozen=True, slots=True)
class _AskedFigure:
    """What a figure must be that answers a question for one."""

    known: frozenset[str]
    """Figures of the question itself."""
    measure: str
    """What it counts, where the question says so in Korean ("몇 년", "몇 명"), whose counters stand behind figures."""

    @classmethod
    def of(cls, question: str) -> Self:
        counted = _COUNTER.search(question)
        return cls(frozenset(_FIGURE.findall(question)), counted.group(1) if counted else "")

    def stands_in(self, text: str) -> bool:
        figures = re.findall(rf"(\d+)\s?{self.measure}", text) if self.measure else _FIGURE.findall(text)
        return bool(set(figures) - self.known)


@dataclass(frozen=True, slots=True)
class Near:
    """How near statements are to a question by meaning."""

    cosines: Mapping[str, float]
    """By `Unit.readable`; what is not in it was not compared."""

    def of(self, unit: Unit) -> float:
        """0 to 1."""
        return max(self.cosines.get(unit.readable, 0.0), 0.0)


NOT_COMPARED = Near({})


async def near_of(source: EvidenceSource, question: str, passages: Sequence[Evidence]) -> Near:
    """How near the statements that the words put first are to the question by meaning.

    Only where the question is English: an English embedding model finds all of another language near to all.
    """
    if not all(map(str.isascii, key_terms(question))):
        return NOT_COMPARED
    first = list(dict.fromkeys(statement.unit.readable for statement in _scored(question, passages, NOT_COMPARED)))
    texts = first[:COMPARED]
    return Near(dict(zip(texts, await source.nearness(question, texts), strict=True)))


def ranked(question: str, passages: Sequence[Evidence], near: Near = NOT_COMPARED) -> Iterator[Statement]:
    """The statements of all passages, best first, none overlapping a better one.

    The score is the share of the question's key terms, by their weight, in the statement and, counted less, in the
    headings over it, plus its cosine with the question; times what the statement says beyond the question; more where
    it has some of the kind that is asked for; less for another subject, for length, for the passage's rank and for
    lines of contents.
    """
    return _without_overlaps(_scored(question, passages, near))


def _scored(question: str, passages: Sequence[Evidence], near: Near) -> list[Statement]:
    found = in_forms_of(question, statements_of(passages))
    asked = _Asked.of(question, found)
    scored = [Statement(unit, asked.score(unit, near.of(unit))) for unit in found]
    return sorted(scored, key=lambda statement: -statement.score)


def asks_number(question: str) -> bool:
    """Whether the question asks for a figure, a date or a time."""
    return _ASKS_NUMBER.search(question) is not None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What statements are weighed by."""

    terms: QuestionTerms
    whole: float
    """The weight of all terms."""
    figure: _AskedFigure | None
    kind: Kind | None
    subject: Subject | None

    @classmethod
    def of(cls, question: str, found: Sequence[Unit]) -> Self:
        terms = QuestionTerms.of(question, found)
        figure = _AskedFigure.of(question) if asks_number(question) else None
        return cls(
            terms, terms.weight(terms.asked, terms.asked) or 1.0, figure, asked_kind(question), Subject.of(question)
        )

    def score(self, unit: Unit, cosine: float) -> float:
        held = self.terms.weight(self.terms.asked, unit.said, unit.context) / self.whole
        if self.figure is not None and self.figure.stands_in(unit.text):
            held *= NUMBER_FACTOR
        if _NOISE.search(unit.text):
            held *= NOISE_FACTOR
        new = len(unit.said - self.terms.asked)
        length: float = (len(unit.said) + 6) ** LENGTH_POWER
        kind = self.kind.weight(unit.text) if self.kind is not None else 1.0
        subject = self.subject.weight(unit) if self.subject is not None else 1.0
        return (
            (held + cosine) * kind * subject * (new + 0.5) / (new + NEW_TERMS) / length / (1 + RANK_PENALTY * unit.rank)
        )


def _without_overlaps(statements: Sequence[Statement]) -> Iterator[Statement]:
    kept: list[Statement] = []
    for statement in statements:
        if not any(_overlap(statement, other) for other in kept):
            kept.append(statement)
            yield statement


def _overlap(one: Statement, other: Statement) -> bool:
    return one.rank == other.rank and one.start < other.end and other.start < one.end
