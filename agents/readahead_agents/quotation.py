"""The extractive safety net: when the passages do not support a model's words, the best statement speaks for itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_agents.passages import where
from readahead_agents.statements import ranked
from readahead_retrieval.types import Evidence


def closing_quotation(question: str, passages: Sequence[Evidence]) -> str:
    """What is added to an answer that the passages do not support: a quotation with its page, said to be one."""
    passage, quote = best_quote(question, passages)
    return f"No passage of the documents supports this wording. The closest, in {where(passage)}:\n“{quote}”"


def best_quote(question: str, passages: Sequence[Evidence]) -> tuple[Evidence, str]:
    """The statement that says most of what the question asks for, and its passage."""
    assert passages, "a quotation needs a passage"
    best = next(ranked(question, passages))
    passage = passages[best.rank]
    return passage, re.sub(r"\s+", " ", passage.text[best.start : best.end]).strip()
