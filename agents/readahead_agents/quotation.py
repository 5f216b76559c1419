"""The extractive safety net: when nothing supports a model's words, the best passage speaks for itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from readahead_agents.passages import where
from readahead_agents.text import sentences, words
from readahead_retrieval.types import Evidence

MAX_QUOTE_CHARS = 400


def closing_quotation(question: str, answer: str, passages: Sequence[Evidence]) -> str:
    """What is added to an answer that no passage supports: a quotation with its page, said to be one."""
    passage, quote = best_quote(question, answer, passages)
    return f"\n\nNo passage of the documents supports this wording. The closest, in {where(passage)}:\n“{quote}”"


def best_quote(question: str, answer: str, passages: Sequence[Evidence]) -> tuple[Evidence, str]:
    """The sentence that shares most words with the question, and then with the answer; earlier passages win ties."""
    assert passages, "a quotation needs a passage"
    asked, said = words(question), words(answer)
    best, best_score = (passages[0], _clip(passages[0].text)), -1.0
    for rank, passage in enumerate(passages):
        for start, end in sentences(passage.text):
            held = words(passage.text[start:end])
            # long sentences hold more words by chance; a later passage needs more to win
            score = (len(held & asked) + 0.5 * len(held & said - asked)) / (len(held) + 8) / (1 + 0.1 * rank)
            if score > best_score:
                best, best_score = (passage, _clip(passage.text[start:end])), score
    return best


def _clip(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= MAX_QUOTE_CHARS else f"{text[:MAX_QUOTE_CHARS].rsplit(' ', 1)[0]} …"
