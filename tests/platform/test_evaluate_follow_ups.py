"""`readahead eval --follow-ups` over HTTP: each way of making follow-ups stand by themselves, side by side."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from readahead_platform.cli import app
from readahead_platform.commands.evaluate_follow_ups import evaluate_follow_ups
from readahead_retrieval.errors import QuestionsInvalid
from readahead_serving.model.tokenizer import Tokenizer
from tests.platform.gateway import add_document
from tests.platform.test_agent_runs import ANSWER
from tests.platform.test_responses import QUESTION, Replies, with_model

HISTORY = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
LEANING = {"question": "Who lifts it?", "history": HISTORY, "document": "manual.pdf", "page": 1}
OTHER = {
    "question": "After how many hours of work is the oil of the gearbox changed?",
    "history": HISTORY,
    "document": "manual.pdf",
    "page": 2,
    "stands_alone": True,
}


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


async def test_ways_are_compared_on_follow_ups_and_on_other_matters_apart(
    tmp_path: Path, manual: Path, smollm2_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = Replies("Who lifts the Halden pump?")
    async with with_model(tmp_path / "home", smollm2_tokenizer, replies) as gateway:
        await add_document(gateway, "manuals", manual)
        monkeypatch.setenv("READAHEAD_URL", gateway.url)
        monkeypatch.setenv("READAHEAD_API_KEY", gateway.key)
        monkeypatch.setenv("READAHEAD_HOME", str(tmp_path / "home"))
        questions = write(tmp_path / "follow_ups.jsonl", LEANING, OTHER, {"question": "No history?"})
        report = await asyncio.to_thread(evaluate_follow_ups, "manuals", questions, as_json=True)
    assert report.metrics["questions"] == 2
    for way in ("joined", "rules", "model"):
        assert report.metrics[f"{way}.hit@1"] == 1.0
    assert {f"{way}.other_matter.hit@5" for way in ("alone", "joined", "rules", "model")} < report.metrics.keys()
    assert report.metrics["rules.other_matter.hit@1"] == report.metrics["alone.other_matter.hit@1"] == 1.0
    assert report.intervals.keys() == report.metrics.keys() - {"questions"}
    assert len(replies.prompts) == 1, "the model is asked once, and for what leans only"


def test_follow_ups_are_not_asked_without_what_was_said_before_them(tmp_path: Path) -> None:
    questions = write(tmp_path / "follow_ups.jsonl", LEANING)
    told = CliRunner().invoke(app, ["eval", "manuals", str(questions), "--search-only"])
    assert told.exit_code == 2 and "--follow-ups" in told.output


def test_a_file_without_histories_is_refused(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="history"):
        evaluate_follow_ups("manuals", write(tmp_path / "q.jsonl", {"question": "Why?"}), as_json=True)
    with pytest.raises(QuestionsInvalid, match=r"q\.jsonl:1"):
        broken = write(tmp_path / "q.jsonl", {"question": "Why?", "history": ["Because."]})
        evaluate_follow_ups("manuals", broken, as_json=True)
