"""The extractive safety net: when the passages do not support a model's words, the best statement speaks for itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from readahead_agents.evidence import EvidenceSource
from readahead_agents.passages import where
from readahead_agents.statements import ranked
from readahead_retrieval.types import Citation, Evidence


@dataclass(frozen=True, slots=True)
class Quotation:
    """What is added to an answer that the passages do not support."""

    passage: Evidence
    quote: str

    @property
    def text(self) -> str:
        """The quotation with its page, said to be one."""
        return (
            f"No passage of the documents supports this wording. The closest, in {where(self.passage)}:\n“{self.quote}”"
        )

    async def cited(self, source: EvidenceSource, answer: str) -> tuple[Citation, ...]:
        """Where the quote stands on its page, as citations of the `answer` that ends with it."""
        start = answer.rindex(self.quote)
        found = await source.cite(self.quote, [self.passage])
        return tuple(replace(c, answer_start=c.answer_start + start, answer_end=c.answer_end + start) for c in found)


def closing_quotation(question: str, passages: Sequence[Evidence]) -> Quotation:
    return Quotation(*best_quote(question, passages))


def best_quote(question: str, passages: Sequence[Evidence]) -> tuple[Evidence, str]:
    """The statement that says most of what the question asks for, and its passage."""
    assert passages, "a quotation needs a passage"
    best = next(ranked(question, passages))
    passage = passages[best.rank]
    return passage, re.sub(r"\s+", " ", passage.text[best.start : best.end]).strip()
