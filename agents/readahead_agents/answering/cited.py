"""The citations of a text that stands already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from readahead_agents.answering.support import Judge
from readahead_agents.evidence import EvidenceSource
from readahead_retrieval.sentences import sentence_spans
from readahead_retrieval.types import Citation, Evidence


async def citations_of(
    source: EvidenceSource, question: str, text: str, passages: Sequence[Evidence]
) -> tuple[Citation, ...]:
    """The citations of the sentences of a text that stands already, where passages support them."""
    judge = Judge(source, question, passages)
    found: list[Citation] = []
    for start, end in sentence_spans(text):
        judged = await judge.judge(text[start:end])
        found += [shifted(citation, start) for citation in judged.citations]
    return tuple(found)


def shifted(citation: Citation, by: int) -> Citation:
    """The citation of a part of a text as one of the whole."""
    return replace(citation, answer_start=citation.answer_start + by, answer_end=citation.answer_end + by)
