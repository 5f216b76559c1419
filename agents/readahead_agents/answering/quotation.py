"""The extractive safety net: where the passages do not support a model's words, their best statements speak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_agents.answering.passages import where
from readahead_agents.answering.shown_text import plain
from readahead_agents.answering.statements import Statement, ranked
from readahead_agents.answering.support import shifted
from readahead_agents.answering.units import QuestionTerms, Unit, units
from readahead_agents.evidence import EvidenceSource
from readahead_retrieval.types import Citation, Evidence

MAX_QUOTES = 2
LOOKED_AT = 8
"""Statements that may complete the best one."""
MIN_ADDED = 0.2
"""Share of the question's weight that a second quote must add, so that the two halves of a question are answered."""


@dataclass(frozen=True, slots=True)
class Quotation:
    """Statements of the passages in the place of an answer, or behind one that lacks what was asked for."""

    quotes: tuple[Unit, ...]
    lead: str

    @property
    def text(self) -> str:
        """The quotes with their pages, said to be quotes."""
        return "\n\n".join(f"{self._lead(number)}\n{_quoted(unit)}" for number, unit in enumerate(self.quotes))

    async def cited(self, source: EvidenceSource, answer: str) -> tuple[Citation, ...]:
        """Where the quotes stand on their pages, as citations of the `answer` that ends with them."""
        found: list[Citation] = []
        start = answer.rindex(self.text)
        for unit in self.quotes:
            quote = _shown(unit.text)
            start = answer.index(f"“{quote}”", start) + 1
            cited = await source.cite(quote, [unit.passage])
            found += [shifted(citation, start) for citation in cited]
        return tuple(found)

    def _lead(self, number: int) -> str:
        return f"{self.lead if number == 0 else 'And'} {plain(where(self.quotes[number].passage))}:"


def quotation(question: str, passages: Sequence[Evidence], lead: str, most: int = MAX_QUOTES) -> Quotation:
    """The statement that answers the question best, and one more where it says what the first lacks."""
    return Quotation(tuple(_chosen(question, passages, most)), lead)


def best_quote(question: str, passages: Sequence[Evidence]) -> tuple[Evidence, str]:
    """The statement that says most of what the question asks for, and its passage."""
    (unit,) = _chosen(question, passages, 1)
    return unit.passage, _shown(unit.text)


def _chosen(question: str, passages: Sequence[Evidence], most: int) -> list[Unit]:
    assert passages, "a quotation needs a passage"
    statements = ranked(question, passages)
    first = next(statements).unit
    terms = QuestionTerms.of(question, units(passages))
    total = terms.weight(terms.asked, terms.asked)
    rest: list[Statement] = [statement for statement, _ in zip(statements, range(LOOKED_AT), strict=False)]
    chosen, held = [first], first.said
    while rest and len(chosen) < most:
        missing = terms.asked - held
        best = max(rest, key=lambda statement: terms.weight(missing, statement.unit.said))
        if terms.weight(missing, best.unit.said) < MIN_ADDED * total:
            break
        chosen.append(best.unit)
        held |= best.unit.said
        rest.remove(best)
    return chosen


def _quoted(unit: Unit) -> str:
    header = f" (columns: {_shown(unit.header)})" if unit.header else ""
    return f"“{_shown(unit.text)}”{header}"


def _shown(text: str) -> str:
    """On one line, and without what a client would render as a link, an image or a tag: documents are data."""
    return plain(" ".join(text.split()))
