"""The extractive safety net: where the passages do not support a model's words, their best statements speak."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Self

from readahead_agents.answering.cited import shifted
from readahead_agents.answering.named import proper
from readahead_agents.answering.passages import where, where_cited
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
_LINE = re.compile(r"[^\n]*\S")
_ASKED_NOUN = re.compile(
    r"\b(?:what|which)\s+(?:(?:kind|type|sort)s?\s+of\s+)?(?!(?:name|part|place|purpose|reason|role|way)s?\b)([a-z]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quotation:
    """Statements of the passages in the place of an answer, or behind one that lacks what was asked for."""

    quotes: tuple[Unit, ...]
    found: tuple[tuple[Citation, ...], ...]
    """Where each of them stands on its pages."""
    wording: Wording
    lead: str
    """Of the wording's, with a place for the page."""
    before: str = ""
    """A sentence on what is quoted."""

    @classmethod
    async def of(
        cls, source: EvidenceSource, units: Sequence[Unit], wording: Wording, lead: str, before: str = ""
    ) -> Self:
        quotes = tuple(map(_without_page_numbers, units))
        found = [tuple(await source.cite(_one_line(unit.text), [unit.passage])) for unit in quotes]
        return cls(quotes, tuple(found), wording, lead, before)

    @property
    def text(self) -> str:
        """The quotes with their pages, said to be quotes."""
        return "\n\n".join(f"{self._lead(number)}\n“{shown(unit)}”" for number, unit in enumerate(self.quotes))

    def cited(self, answer: str) -> tuple[Citation, ...]:
        """The quotes' places, as citations of the `answer` that ends with them."""
        placed: list[Citation] = []
        start = answer.rindex(self.text)
        for unit, found in zip(self.quotes, self.found, strict=True):
            quote = shown(unit)
            start = answer.index(f"“{quote}”", start) + 1
            whole = [replace(c, answer_start=0, answer_end=len(quote)) for c in found] if is_row(unit.text) else found
            placed += [shifted(citation, start) for citation in whole]
        return tuple(placed)

    def _lead(self, number: int) -> str:
        template = self.lead if number == 0 else self.wording.and_quoted
        unit, found = self.quotes[number], self.found[number]
        place = where_cited(found, self.wording) if found else where(unit.passage, self.wording)
        lead = template.format(where=plain(place))
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


def _without_page_numbers(unit: Unit) -> Unit:
    """Without the number of its page, printed on a line of its own before or behind it."""
    pages, first = range(unit.passage.last_page - unit.passage.page + 1), unit.passage.page_label
    labels = {first, *(str(unit.passage.page + page) for page in pages)}
    labels |= {str(int(first) + page) for page in pages} if first.isdecimal() else set()
    lines = list(_LINE.finditer(unit.text))
    numbers = [line.group().strip(" -–—") in labels for line in lines]
    kept = [line for line, is_number in zip(lines, numbers, strict=True) if not is_number]
    if not kept:
        return unit
    return replace(unit, start=unit.start + kept[0].start(), end=unit.start + kept[-1].end())


def shown(unit: Unit) -> str:
    """On one line, and without what a client would render as a link, an image or a tag: documents are data."""
    return plain(_one_line(unit.readable))


def _one_line(text: str) -> str:
    return " ".join(text.split())
