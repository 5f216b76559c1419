"""The extractive safety net: where the passages do not support a model's words, their best statements speak."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from readahead_agents.answering.cited import shifted
from readahead_agents.answering.named import proper
from readahead_agents.answering.passages import where
from readahead_agents.answering.rows import is_row
from readahead_agents.answering.shown_text import plain
from readahead_agents.answering.statements import NOT_COMPARED, Near, asks_number, ranked
from readahead_agents.answering.units import QuestionTerms, Unit, halves, units
from readahead_agents.answering.wording import Wording
from readahead_agents.evidence import EvidenceSource
from readahead_retrieval.relevance import key_terms, said_terms
from readahead_retrieval.types import Citation, Evidence

MAX_QUOTES = 2
LOOKED_AT = 8
"""Statements that may complete the best one."""
MIN_HALF = 0.5
"""Share of the weight of one half of a question that a quote must hold to speak of it."""
_ASKED_NOUN = re.compile(
    r"\b(?:what|which)\s+(?:(?:kind|type|sort)s?\s+of\s+)?(?!(?:name|part|place|purpose|reason|role|way)s?\b)([a-z]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quotation:
    """Statements of the passages in the place of an answer, or behind one that lacks what was asked for."""

    quotes: tuple[Unit, ...]
    wording: Wording
    lead: str
    """Of the wording's, with a place for the page."""
    before: str = ""
    """A sentence on what is quoted."""

    @property
    def text(self) -> str:
        """The quotes with their pages, said to be quotes."""
        return "\n\n".join(f"{self._lead(number)}\n“{shown(unit)}”" for number, unit in enumerate(self.quotes))

    async def cited(self, source: EvidenceSource, answer: str) -> tuple[Citation, ...]:
        """Where the quotes stand on their pages, as citations of the `answer` that ends with them."""
        found: list[Citation] = []
        start = answer.rindex(self.text)
        for unit in self.quotes:
            quote = shown(unit)
            start = answer.index(f"“{quote}”", start) + 1
            cited = await source.cite(_one_line(unit.text), [unit.passage])
            if is_row(unit.text):
                cited = [replace(citation, answer_start=0, answer_end=len(quote)) for citation in cited]
            found += [shifted(citation, start) for citation in cited]
        return tuple(found)

    def _lead(self, number: int) -> str:
        template = self.lead if number == 0 else self.wording.and_quoted
        lead = template.format(where=plain(where(self.quotes[number].passage, self.wording)))
        return f"{self.before} {lead}" if self.before and number == 0 else lead


def best_units(
    question: str, passages: Sequence[Evidence], near: Near = NOT_COMPARED, most: int = MAX_QUOTES
) -> tuple[Unit, ...]:
    """The statement that answers the question best, and one more where it says what the first lacks."""
    return tuple(_chosen(question, passages, near, most))


def said_share(question: str, unit: Unit, passages: Sequence[Evidence]) -> float:
    """0 to 1: of the terms of the question, or of one of its parts, what a statement and what stands over it say."""
    terms = QuestionTerms.of(question, units(passages))
    parts = [terms.asked, *filter(None, (half & terms.asked for half in halves(question)))]
    whole = {part: terms.weight(part, part) for part in parts}
    return max(terms.weight(p, unit.said, unit.context) / whole[p] if whole[p] else 1.0 for p in parts)


def lacks_name(question: str, unit: Unit) -> bool:
    """Whether a statement, and what stands over it, lack a name of the question's: it may be of another."""
    return not said_terms(" ".join(proper(question))) <= unit.said | unit.context


def lacks_noun(question: str, passages: Sequence[Evidence]) -> bool:
    """Whether no passage speaks of what is asked for by a noun ("what colour")."""
    spoken_of = frozenset[str]().union(*(said_terms(f"{p.document} {p.heading} {p.text}") for p in passages))
    return not _noun(question) <= spoken_of


def _noun(question: str) -> frozenset[str]:
    """What stands behind "what" and "which"; empty where a figure is asked for, which its noun need not stand by."""
    found = None if asks_number(question) else _ASKED_NOUN.search(question)
    return key_terms(found.group(1)) if found is not None else frozenset()


def _chosen(question: str, passages: Sequence[Evidence], near: Near, most: int) -> list[Unit]:
    assert passages, "a quotation needs a passage"
    statements = list(islice(ranked(question, passages, near), LOOKED_AT))
    chosen = [statements[0].unit]
    terms = QuestionTerms.of(question, units(passages))
    for half in halves(question):
        if len(chosen) < most and not any(_speaks_of(half, unit, terms) for unit in chosen):
            chosen += islice((s.unit for s in statements[1:] if _speaks_of(half, s.unit, terms)), 1)
    return chosen


def _speaks_of(half: frozenset[str], unit: Unit, terms: QuestionTerms) -> bool:
    asked = half & terms.asked
    return terms.weight(asked, unit.said, unit.context) >= MIN_HALF * terms.weight(asked, asked)


def shown(unit: Unit) -> str:
    """On one line, and without what a client would render as a link, an image or a tag: documents are data."""
    return plain(_one_line(unit.readable))


def _one_line(text: str) -> str:
    return " ".join(text.split())
