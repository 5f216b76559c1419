"""Whether an answer stands in the passages it was written from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from readahead_agents.evidence import EvidenceSource
from readahead_agents.statements import asks_number
from readahead_agents.text import sentences
from readahead_retrieval.types import Citation, Evidence

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
# markers of passages, and the numbers of a list, state nothing
_NUMBERING = re.compile(r"\[\s*S\d[^\]]*\]|^\s*\d{1,2}[.)](?=\s)", re.MULTILINE)
_DECLINES = re.compile(
    r"\bnot in the (?:documents|passages|text)\b|"
    r"\b(?:not|n't|no)\b.{0,40}\b(?:mention|stat|specif|provid|contain|inform|answer|say|cover)",
    re.IGNORECASE,
)
MAX_DECLINE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Support:
    """What the passages say to an answer."""

    citations: tuple[Citation, ...]
    """Of the sentences that a passage supports."""
    sufficient: bool
    """False where no sentence is supported, where a figure is not in the quotation that should support it, or where
    a figure was asked for and none is given."""


async def support(source: EvidenceSource, question: str, answer: str, passages: Sequence[Evidence]) -> Support:
    """Matches the answer to the passages. A small model makes figures up, so each must stand in its quotation."""
    asked = numbers(question)
    found = await source.cite(answer, passages)
    citations = tuple(
        citation for citation in found if numbers(_sentence(answer, citation)) <= numbers(citation.quote) | asked
    )
    figures_stand = all(
        numbers(answer[start:end]) <= asked or any(c.answer_start < end and start < c.answer_end for c in citations)
        for start, end in sentences(answer)
    )
    figure_given = not asks_number(question) or bool(numbers(answer) - asked)
    return Support(citations, bool(citations) and figures_stand and figure_given)


def declines(answer: str) -> bool:
    """Whether the model itself says that the passages do not answer; such a sentence needs no support."""
    return len(answer) <= MAX_DECLINE_CHARS and _DECLINES.search(answer) is not None


def numbers(text: str) -> set[str]:
    """The numbers of a text as written, and their parts: a model may say 2028 where the page has 11.01.2028."""
    whole = {match.group().replace(",", "") for match in _NUMBER.finditer(_NUMBERING.sub("", text))}
    return whole | {part for number in whole for part in re.split(r"[.:]", number)}


def _sentence(answer: str, citation: Citation) -> str:
    return answer[citation.answer_start : citation.answer_end]
