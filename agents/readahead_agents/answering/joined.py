"""Texts that stand already, put behind one another with their citations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from readahead_agents.actions.result import ActionResult
from readahead_retrieval.types import Citation

MARKERS = re.compile(r"[ \t]?\[\s*S\d+(?:\s*[,;]\s*S\d+)*\s*\]")
"""Numbers of passages, which mean something in one prompt only."""


def joined(parts: Iterable[tuple[str, ActionResult]]) -> tuple[str, tuple[Citation, ...]]:
    """The results' texts, each behind its lead, as paragraphs without markers; citations point into the whole."""
    text, citations = "", list[Citation]()
    for lead, result in parts:
        text += f"\n\n{lead}" if text else lead
        cuts = [match.span() for match in MARKERS.finditer(result.text)]
        citations += [_moved(citation, cuts, len(text)) for citation in result.citations]
        text += MARKERS.sub("", result.text)
    return text, tuple(citations)


def _moved(citation: Citation, cuts: list[tuple[int, int]], by: int) -> Citation:
    start, end = (
        by + place - sum(min(stop, place) - begin for begin, stop in cuts if begin < place)
        for place in (citation.answer_start, citation.answer_end)
    )
    return replace(citation, answer_start=start, answer_end=end)
