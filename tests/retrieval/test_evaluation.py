"""Evaluation: measures against values worked out by hand, and whole runs over small fixed services."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from readahead_retrieval.errors import NotFound, QuestionsInvalid
from readahead_retrieval.evaluation.dataset import Dataset, read_dataset
from readahead_retrieval.evaluation.metrics import (
    answer_coverage,
    bootstrap_interval,
    hit_at_k,
    ndcg_at_k,
    recall_at_k,
    reciprocal_rank,
)
from readahead_retrieval.evaluation.passages import SecondLook, evaluate_dataset
from readahead_retrieval.evaluation.questions import Question, read_questions
from readahead_retrieval.evaluation.runner import FoundPage, GivenAnswer, evaluate
from tests.retrieval.library_parts import TermEmbedder


def test_recall_is_the_share_of_relevant_pages_found() -> None:
    assert recall_at_k(["a", "b", "c", "d"], {"b", "d", "x"}, 3) == pytest.approx(1 / 3)
    assert recall_at_k(["a", "b", "c", "d"], {"b", "d", "x"}, 4) == pytest.approx(2 / 3)
    assert hit_at_k(["a", "b"], {"b"}, 1) == 0.0
    assert hit_at_k(["a", "b"], {"b"}, 2) == 1.0


def test_passages_of_one_page_take_one_rank() -> None:
    assert recall_at_k(["a", "a", "a", "b"], {"b"}, 2) == 1.0
    assert reciprocal_rank(["a", "a", "b"], {"b"}) == 0.5


def test_reciprocal_rank_without_a_hit_is_zero() -> None:
    assert reciprocal_rank(["a", "b"], {"c"}) == 0.0


def test_ndcg_discounts_by_the_logarithm_of_the_rank() -> None:
    # found at rank 2: 1 / log2(3); ideal 1 / log2(2)
    assert ndcg_at_k(["x", "a"], {"a": 1.0}) == pytest.approx(0.63093, abs=1e-5)
    # gains 1, 0, 3 against 3, 1: (1 + 3/2) / (3 + 1/log2(3))
    assert ndcg_at_k(["a", "x", "b"], {"a": 1.0, "b": 3.0}) == pytest.approx(0.68852, abs=1e-5)
    assert ndcg_at_k(["x", "a"], {"a": 1.0}, k=1) == 0.0


@pytest.mark.parametrize(
    ("text", "answer", "holds"),
    [
        ("It costs 11,600 Crowns.", "11600 crowns", True),
        ("It costs 111,600 crowns.", "11,600 crowns", False),
        ("The slope is 0.315.", "0.31", False),
        ("The slope is 0.31.", "0.31", True),
        ("at -20 °C", "20 °C", False),
        ("좌석이 128석입니다.", "128석", True),
        ("in the\nreturn  air", "Return air", True),
        ("1.4 Kelvin", "1.4 K", False),
    ],
)
def test_an_answer_counts_when_it_stands_there_as_whole_words(text: str, answer: str, holds: bool) -> None:
    assert answer_coverage(text, [answer]) == float(holds)


def test_coverage_is_the_share_of_the_answer_strings() -> None:
    assert answer_coverage("every 5 minutes", ["every 5 minutes", "400 days"]) == 0.5


def test_a_bootstrap_interval_holds_the_mean_and_repeats() -> None:
    values = [0.0] * 30 + [1.0] * 70
    low, high = bootstrap_interval(values)
    # the normal approximation gives 0.7 ± 1.96 * sqrt(0.7 * 0.3 / 100) = 0.610 to 0.790
    assert low == pytest.approx(0.61, abs=0.02)
    assert high == pytest.approx(0.79, abs=0.02)
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval([0.5]) == (0.5, 0.5)


QUESTIONS = [
    Question("found first", ("yes",), "folder/a.pdf", (1,)),
    Question("found third", ("two",), "b.pdf", (2,)),
    Question("never found", ("three",), "b.pdf", (3,)),
    Question("unanswerable", (), "", (), unanswerable=True),
]


async def search(question: str) -> Sequence[FoundPage]:
    pages = {"found first": [("a.pdf", 1)], "found third": [("a.pdf", 2), ("b.pdf", 1), ("b.pdf", 2)]}
    return [FoundPage(name, page, 1.0) for name, page in pages.get(question, [("a.pdf", 9)])]


async def ask(question: str) -> GivenAnswer:
    if question == "found first":
        return GivenAnswer("Yes, 7 of them.", [FoundPage("a.pdf", 1, 0.9)], covered=True)
    return GivenAnswer("That is not in the documents.", [], covered=False)


async def test_a_run_reports_means_intervals_and_misses() -> None:
    progress: list[tuple[int, int]] = []
    report = (await evaluate(QUESTIONS, search, on_progress=lambda *at: progress.append(at))).as_dict()
    assert report["metrics"]["recall@1"] == pytest.approx(1 / 3)
    assert report["metrics"]["hit@5"] == pytest.approx(2 / 3)
    assert report["metrics"]["mrr"] == pytest.approx((1 + 1 / 3) / 3)
    assert report["metrics"]["questions"] == 4
    low, high = report["intervals"]["mrr"]
    assert 0 <= low <= report["metrics"]["mrr"] <= high <= 1
    assert [miss["question"] for miss in report["misses"]] == ["never found"]
    assert report["misses"][0]["found"] == [{"document": "a.pdf", "page": 9, "score": 1.0}]
    assert progress[-1] == (4, 4)
    json.dumps(report)


async def test_answers_are_judged_by_content_citation_and_refusal() -> None:
    report = await evaluate(QUESTIONS, search, ask)
    assert report.metrics["answer_hit"] == pytest.approx(1 / 3)
    assert report.metrics["citation_hit"] == pytest.approx(1 / 3)
    assert report.metrics["refused_answerable"] == pytest.approx(2 / 3)
    assert report.metrics["refused_unanswerable"] == 1.0
    assert {miss["question"] for miss in report.misses} == {"found third", "never found"}


async def test_what_a_quotation_answers_is_not_counted_as_the_models_own_words() -> None:
    async def quotes(question: str) -> GivenAnswer:
        return GivenAnswer(
            "Quoted from a.pdf: “Yes, two or three.”", [], covered=True, quoted=question != "found third"
        )

    report = await evaluate(QUESTIONS, search, quotes)
    assert report.metrics["answer_hit"] == 1.0
    assert report.metrics["own_words_hit"] == pytest.approx(1 / 3)
    assert report.metrics["refused_unanswerable"] == 0.0
    assert report.metrics["asserted_unanswerable"] == 0.0


def test_both_forms_of_question_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(
        '{"question": "q", "answers": ["a"], "document": "d.pdf", "page": 3}\n\n'
        '{"question": "r", "doc": "documents/e.pdf", "answers": [], "pages": [1, 2]}\n'
        '{"question": "s", "answers": [], "document": null, "page": null, "unanswerable": true}\n'
    )
    assert read_questions(path) == [
        Question("q", ("a",), "d.pdf", (3,)),
        Question("r", (), "documents/e.pdf", (1, 2)),
        Question("s", (), "", (), unanswerable=True),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        '{"answers": []}',
        '{"question": "", "page": 1}',
        '{"question": 3}',
        '{"question": "q", "history": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"question": "half of a pair: \\ud800"}',
        '{"question": "q", "history": [{"role": "nobody", "content": "c"}]}',
        '{"question": "q", "history": [{"role": "user", "content": "\\udfff"}]}',
        '{"question": "q", "page": -3}',
        '{"question": "q", "page": 0}',
        '{"question": "q", "pages": [1, Infinity]}',
        '{"question": "q", "document": 7}',
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "q"}\n' + line + "\n")
    with pytest.raises(QuestionsInvalid, match=r"q\.jsonl:2 is not a question"):
        read_questions(path)


def test_a_file_without_questions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    for name in ("empty.jsonl", "missing.jsonl"):
        with pytest.raises(QuestionsInvalid, match=name):
            read_questions(tmp_path / name)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        '{"_id": "p2"}',
        '{"_id": 2, "text": "t"}',
        '{"_id": "p2", "text": "half of a pair: \\ud800"}',
        '{"_id": "p2", "text": "t", "title": ["t"]}',
        '{"_id": "p2", "text": "t", "metadata": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_a_bad_line_of_a_data_set_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "p1", "text": "t"}\n' + line + "\n")
    with pytest.raises(QuestionsInvalid, match=r"corpus\.jsonl:2 is no object"):
        read_dataset(tmp_path)


class Contrary:
    """Finds best what the fusion found worst."""

    async def rescore(self, query: str, texts: Sequence[str], scores: Sequence[float]) -> list[float]:
        return [1 - score for score in scores]


async def test_a_data_set_is_measured_with_the_second_look_that_searches_have() -> None:
    passages = {"p1": "Hotels are paid up to 140 euros.", "p2": "Hotels of the chain.", "p3": "Laptops are replaced."}
    dataset = Dataset("d", passages, {"q": "hotels paid euros"}, {"q": {"p2": 1.0}})
    plain = (await evaluate_dataset(dataset, TermEmbedder(), candidates=10)).metrics
    assert plain["hybrid_mrr"] == 0.5
    assert "reranked_mrr" not in plain
    looked = await evaluate_dataset(dataset, TermEmbedder(), candidates=10, second=SecondLook(Contrary(), 2))
    assert (looked.metrics["hybrid_mrr"], looked.metrics["reranked_mrr"]) == (0.5, 1.0)


async def test_a_failing_search_ends_the_run_with_its_own_error() -> None:
    async def fails(question: str) -> list[FoundPage]:
        raise NotFound("knowledge base", question)

    with pytest.raises(NotFound):
        await evaluate([Question("where", (), "a.pdf", (1,)), Question("when", (), "a.pdf", (2,))], fails)
