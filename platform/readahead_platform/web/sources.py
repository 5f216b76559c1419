"""The numbered sources under an answer: citations of one page are one source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_retrieval.types import Box, Citation


@dataclass(frozen=True, slots=True)
class Source:
    """A page that an answer cites."""

    number: int
    """As shown in the answer, from 1."""
    document_id: str
    document: str
    page: int
    page_label: str
    quotes: tuple[str, ...]
    boxes: tuple[Box, ...]
    score: float
    """Of its best citation, 0–1."""


def number_sources(citations: Sequence[Citation]) -> list[Source]:
    """Sources in the order in which the answer first cites them."""
    pages: dict[tuple[str, int], list[Citation]] = {}
    for citation in citations:
        pages.setdefault((citation.document_id, citation.page), []).append(citation)
    return [_source(number, cited) for number, cited in enumerate(pages.values(), start=1)]


def marks(citations: Sequence[Citation], sources: Sequence[Source]) -> list[tuple[int, int]]:
    """(offset in the answer, source number) for each sentence's end, without repetitions, in order."""
    numbers = {(source.document_id, source.page): source.number for source in sources}
    ends = {(c.answer_end, numbers[c.document_id, c.page]) for c in citations}
    return sorted(ends)


def _distinct(quotes: Sequence[str]) -> tuple[str, ...]:
    """Each once, and none that stands in another already, however its lines are broken."""
    plain = {quote: " ".join(quote.split()) for quote in quotes}
    kept = dict.fromkeys(
        text for text in plain.values() if not any(text in other and text != other for other in plain.values())
    )
    return tuple(kept)


def _source(number: int, cited: Sequence[Citation]) -> Source:
    first = cited[0]
    return Source(
        number=number,
        document_id=first.document_id,
        document=first.document,
        page=first.page,
        page_label=first.page_label,
        quotes=_distinct([c.quote for c in cited]),
        boxes=tuple(dict.fromkeys(box for c in cited for box in c.boxes)),
        score=max(c.score for c in cited),
    )
