"""Asks the questions of a file and measures what comes back.

A file of questions has one JSON object a line: `question`, `answers` (strings that a right answer holds), `document`
(a file name), `page` or `pages` (1-based, physical), and `unanswerable: true` where no document answers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from readahead_retrieval.evaluation.metrics import (
    answer_coverage,
    bootstrap_interval,
    hit_at_k,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank,
)
from readahead_retrieval.evaluation.questions import Question, document_key

RECALL_DEPTHS = (1, 5, 10)
SHOWN = 5
"""Pages that a miss lists."""


class FoundPage(NamedTuple):
    """A page that a search or a citation names."""

    document: str
    page: int
    score: float


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What the service under test answered."""

    answer: str
    citations: Sequence[FoundPage]
    covered: bool
    """False when it said that the documents do not answer."""
    quoted: bool = False
    """A quotation stands in the place of the model's own words, or behind them."""


Search = Callable[[str], Awaitable[Sequence[FoundPage]]]
"""The pages for a question, best first."""
Ask = Callable[[str], Awaitable[GivenAnswer]]


@dataclass(frozen=True, slots=True)
class Report:
    """Means over the questions, 95% bootstrap intervals of them, and what went wrong, question by question."""

    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    misses: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """The object that `readahead eval --json` ends with."""
        intervals = {name: list(bounds) for name, bounds in self.intervals.items()}
        return {"metrics": self.metrics, "intervals": intervals, "misses": self.misses}


@dataclass(frozen=True, slots=True)
class _Outcome:
    scores: dict[str, float]
    miss: dict[str, Any] | None


async def evaluate(
    questions: Sequence[Question],
    search: Search,
    ask: Ask | None = None,
    *,
    concurrency: int = 4,
    on_progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Measures search, and answers where `ask` is given.

    Args:
        questions: At least one.
        concurrency: Questions in flight at a time.
        on_progress: Called with (done, total) after each question.

    Raises:
        Exception: The first that `search` or `ask` raised; the others in flight are cancelled.
    """
    assert questions, "nothing to evaluate"
    slots, done = asyncio.Semaphore(concurrency), 0

    async def one(question: Question) -> _Outcome:
        nonlocal done
        async with slots:
            found = await search(question.text)
            given = await ask(question.text) if ask is not None else None
        done += 1
        if on_progress is not None:
            on_progress(done, len(questions))
        return _judge(question, found, given)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(question)) for question in questions]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # one cause is enough to mend, and callers know its type
    return _summarize([task.result() for task in tasks])


def _judge(question: Question, found: Sequence[FoundPage], given: GivenAnswer | None) -> _Outcome:
    scores = {**_search_scores(question, found), **(_answer_scores(question, given) if given is not None else {})}
    wrong = [name for name in ("hit@5", "answer_hit", "refused_unanswerable") if scores.get(name, 1.0) == 0.0]
    if scores.get("refused_answerable"):
        wrong.append("refused_answerable")
    return _Outcome(scores, _miss(question, found, given, wrong) if wrong else None)


def _search_scores(question: Question, found: Sequence[FoundPage]) -> dict[str, float]:
    if not question.pages:
        return {}
    ranking = [(document_key(page.document), page.page) for page in found]
    relevant = {(document_key(question.document), page) for page in question.pages}
    scores = {f"recall@{k}": recall_at_k(ranking, relevant, k) for k in RECALL_DEPTHS}
    scores |= {f"hit@{k}": hit_at_k(ranking, relevant, k) for k in RECALL_DEPTHS}
    return scores | {
        "mrr": reciprocal_rank(ranking, relevant),
        "ndcg@10": ndcg_at_k(ranking, dict.fromkeys(relevant, 1.0)),
    }


def _answer_scores(question: Question, given: GivenAnswer) -> dict[str, float]:
    refused = float(not given.covered)
    if question.unanswerable:
        return {"refused_unanswerable": refused, "asserted_unanswerable": float(given.covered and not given.quoted)}
    scores = {"refused_answerable": refused}
    if question.answers:
        coverage = answer_coverage(given.answer, question.answers)
        own = coverage > 0 and given.covered and not given.quoted
        scores |= {"answer_coverage": coverage, "answer_hit": float(coverage > 0), "own_words_hit": float(own)}
    if question.pages:
        cited = [(document_key(page.document), page.page) for page in given.citations]
        relevant = {(document_key(question.document), page) for page in question.pages}
        scores["citation_hit"] = hit_at_k(cited, relevant, max(len(cited), 1))
    return scores


def _miss(
    question: Question, found: Sequence[FoundPage], given: GivenAnswer | None, wrong: Sequence[str]
) -> dict[str, Any]:
    miss: dict[str, Any] = {
        "question": question.text,
        "wrong": list(wrong),
        "expected": {"document": question.document, "pages": list(question.pages), "answers": list(question.answers)},
        "found": [page._asdict() for page in found[:SHOWN]],
    }
    return miss if given is None else miss | {"answer": given.answer, "covered": given.covered, "quoted": given.quoted}


def _summarize(outcomes: Sequence[_Outcome]) -> Report:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        for name, score in outcome.scores.items():
            values[name].append(score)
    metrics = {name: sum(scores) / len(scores) for name, scores in values.items()}
    metrics["questions"] = float(len(outcomes))
    return Report(
        metrics,
        {name: bootstrap_interval(scores) for name, scores in values.items()},
        [outcome.miss for outcome in outcomes if outcome.miss is not None],
    )
