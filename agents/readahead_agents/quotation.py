"""The extractive safety net: when the passages do not support a model's words, the best statement speaks for itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_agents.passages import where
from readahead_agents.statements import ranked
from readahead_retrieval.types import Evidence

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
# markers of passages, and the numbers of a list, state nothing
_NUMBERING = re.compile(r"\[\s*S\d[^\]]*\]|^\s*\d{1,2}[.)](?=\s)", re.MULTILINE)
_DECLINES = re.compile(
    r"\bnot in the (?:documents|passages|text)\b|"
    r"\b(?:not|n't|no)\b.{0,40}\b(?:mention|stat|specif|provid|contain|inform|answer|say|cover)",
    re.IGNORECASE,
)
MAX_DECLINE_CHARS = 200


def closing_quotation(question: str, passages: Sequence[Evidence]) -> str:
    """What is added to an answer that the passages do not support: a quotation with its page, said to be one."""
    passage, quote = best_quote(question, passages)
    return f"No passage of the documents supports this wording. The closest, in {where(passage)}:\n“{quote}”"


def best_quote(question: str, passages: Sequence[Evidence]) -> tuple[Evidence, str]:
    """The statement that says most of what the question asks for, and its passage."""
    assert passages, "a quotation needs a passage"
    best = ranked(question, passages)[0]
    passage = passages[best.rank]
    return passage, re.sub(r"\s+", " ", passage.text[best.start : best.end]).strip()


def invented_numbers(answer: str, question: str, passages: Sequence[Evidence]) -> set[str]:
    """Numbers of an answer that neither the question nor any passage holds: a small model makes them up."""
    known = {number for text in (question, *(f"{p.heading} {p.text}" for p in passages)) for number in _numbers(text)}
    return _numbers(answer) - known


def declines(answer: str) -> bool:
    """Whether the model itself says that the passages do not answer; such a sentence needs no support."""
    return len(answer) <= MAX_DECLINE_CHARS and _DECLINES.search(answer) is not None


def _numbers(text: str) -> set[str]:
    """Numbers as written, and their parts: a model may say 2028 where the page has 11.01.2028."""
    text = _NUMBERING.sub("", text)
    whole = {match.group().replace(",", "") for match in _NUMBER.finditer(text)}
    return whole | {part for number in whole for part in re.split(r"[.:]", number)}
