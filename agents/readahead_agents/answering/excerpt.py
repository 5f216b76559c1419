"""Cuts passages to a token budget by what the question asks for, instead of from the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from readahead_agents.answering.passages import blocks
from readahead_agents.answering.statements import NOT_COMPARED, Near, Statement, ranked
from readahead_agents.answering.units import readable
from readahead_agents.llm.base import LanguageModel
from readahead_retrieval.types import Evidence

HEAD_CHARS = 40
"""What a passage's own line takes, about."""


@dataclass(frozen=True, slots=True)
class Excerpts:
    """Passages, best first, and the text that is shown of each."""

    passages: tuple[Evidence, ...]
    texts: tuple[str, ...]

    def first(self, count: int) -> Excerpts:
        return Excerpts(self.passages[:count], self.texts[:count])

    def __len__(self) -> int:
        return len(self.passages)


async def excerpts(
    llm: LanguageModel, question: str, passages: Sequence[Evidence], tokens: int, near: Near = NOT_COMPARED
) -> Excerpts:
    """The passages whole where they take no more than `tokens`; else their statements nearest to the question.

    The best statement is always kept. Passages of which nothing is kept are left out.
    """
    whole = Excerpts(tuple(passages), tuple(map(_full_text, passages)))
    if not passages:
        return whole
    text = blocks(whole.passages, whole.texts)
    [count] = await llm.count_tokens([text])
    if count <= tokens:
        return whole
    return _excerpts(passages, _chosen(question, passages, near, int(len(text) * tokens / count)))


def _chosen(question: str, passages: Sequence[Evidence], near: Near, chars: int) -> dict[int, list[Statement]]:
    """The best statements that fit, by the rank of their passage."""
    chosen: defaultdict[int, list[Statement]] = defaultdict(list)
    for statement in ranked(question, passages, near):
        chars -= len(statement.unit.readable) + (0 if statement.rank in chosen else HEAD_CHARS)
        if chosen and chars < 0:
            break
        chosen[statement.rank].append(statement)
    return chosen


def _excerpts(passages: Sequence[Evidence], chosen: dict[int, list[Statement]]) -> Excerpts:
    ranks = sorted(chosen)
    texts = tuple(_joined(chosen[rank]) for rank in ranks)
    return Excerpts(tuple(passages[rank] for rank in ranks), texts)


def _joined(statements: Sequence[Statement]) -> str:
    """The statements in reading order."""
    in_order = sorted(statements, key=lambda statement: statement.start)
    return "\n".join(statement.unit.readable for statement in in_order)


def _full_text(passage: Evidence) -> str:
    text = readable(passage.text)
    return f"{passage.heading}\n{text}" if passage.heading else text
