"""The sides of a comparison: an answer that leaves one out is given a quotation on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from readahead_agents.answering.quotation import quotation
from readahead_agents.events import Answered
from readahead_agents.evidence import EvidenceSource
from readahead_retrieval.types import Citation, Evidence


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things compared: the question on it, and what that found."""

    question: str
    evidence: tuple[Evidence, ...]


async def with_all_sides(source: EvidenceSource, answered: Answered, sides: Sequence[Side]) -> Answered:
    """The answer, and behind it the best statement on each side that it does not cite, as a quotation."""
    text, citations = answered.answer, answered.citations
    for number, side in enumerate(sides):
        others = [passage for other in (*sides[:number], *sides[number + 1 :]) for passage in other.evidence]
        own = [passage for passage in side.evidence if passage not in others] or list(side.evidence)
        if not own or not source.covers(side.question, own) or any(_stands_in(each, own) for each in citations):
            continue
        found = quotation(side.question, own, "Quoted from", 1)
        text += f"\n\n{found.text}"
        citations += await found.cited(source, text)
    if text == answered.answer:
        return answered
    return replace(answered, answer=text, citations=citations, quoted=True, covered=True)


def _stands_in(citation: Citation, passages: Sequence[Evidence]) -> bool:
    return any(
        passage.document_id == citation.document_id and passage.page <= citation.page <= passage.last_page
        for passage in passages
    )
