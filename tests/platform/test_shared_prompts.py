"""What two questions on one knowledge base share, counted by the engine's cache over the public routes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.platform.running import RunningReadahead, wait_until
from tests.retrieval import pdf_samples as samples

QUESTIONS = ("After how many hours of work is the oil changed?", "Which class of mineral oil does it take?")
TAIL_TOKENS = 40
"""Of one prompt: the question, its frame, and where the reply begins."""
ANSWER_TOKENS = 8
BEGINNING_TOKENS = 20
"""Of one prompt, before its passages."""
SAID_TOKENS = 40
"""Of two turns with what stands around them."""


@dataclass(frozen=True)
class Kept:
    """A knowledge base."""

    http: httpx.Client
    name: str
    store: str

    def usage(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = self.http.post(path, json=body)
        assert response.status_code == 200, response.text
        told: dict[str, Any] = response.json()
        return told


@contextmanager
def knowledge_base(service: RunningReadahead, path: Path) -> Iterator[Kept]:
    """Of one document, under its name; deleted at the end."""
    sdk = service.sdk()
    store = sdk.vector_stores.create(name=path.stem)
    file = sdk.files.create(file=path, purpose="assistants")
    added = sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=100)
    assert added.status == "completed", added.last_error
    key = {"Authorization": f"Bearer {service.api_key}"}
    with httpx.Client(base_url=service.url, headers=key, timeout=240) as http:
        yield Kept(http, path.stem, store.id)
    sdk.vector_stores.delete(store.id)


@pytest.fixture(scope="module")
def kept(readahead_up: RunningReadahead, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """Its passages are the same for every question: there is one."""
    page = samples.lines(
        "The oil of the gearbox is changed after 600 hours of work.",
        "Use only mineral oil of class 32, about two litres of it.",
        "Old oil goes to the yard in a closed can and is never poured away.",
        "The screws of the lid are tightened crosswise, and looked at again on the next day.",
        "Whoever changes the oil writes the date, the hours and the name into the book of the pump.",
        "A gearbox that is warm to the hand after an hour is switched off, and the yard is told.",
    )
    path = samples.write_pdf(tmp_path_factory.mktemp("kept") / "gearbox.pdf", page)
    with knowledge_base(readahead_up, path) as made:
        yield made


def chat(kept: Kept, question: str, route: str, *said: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The message's own field and the usage.

    Args:
        said: Turns before the question, the user's first.
    """
    roles = itertools.cycle(("user", "assistant"))
    body = {
        "model": f"kb/{kept.name}",
        "messages": [{"role": next(roles), "content": content} for content in (*said, question)],
        "max_tokens": ANSWER_TOKENS,
        "readahead": {"route": route},
    }
    told = kept.usage("/v1/chat/completions", body)
    return told["choices"][0]["message"]["readahead"], told["usage"]


def check(calls: int, usage: dict[str, Any], computed: int) -> None:
    """What one step wrote may stand in the prompt of the next; a plan and its only step write nothing of the kind."""
    written = usage["completion_tokens"] if calls > 2 else 0
    assert computed <= calls * TAIL_TOKENS + written, usage
    assert usage["prompt_tokens"] > calls * 3 * TAIL_TOKENS, "there is something to share"


@pytest.mark.parametrize("route", ["rag", "agent"])
def test_a_second_question_computes_no_more_than_itself(kept: Kept, route: str) -> None:
    _, first = chat(kept, QUESTIONS[0], route)
    field, second = chat(kept, QUESTIONS[1], route)
    check(field["cost"]["llm_calls"], second, field["cost"]["computed_tokens"])
    assert first["prompt_tokens"] > 0


def test_a_response_shares_what_a_chat_has_left(kept: Kept) -> None:
    chat(kept, QUESTIONS[0], "rag")
    body = {"model": f"kb/{kept.name}", "input": "Where does old oil go?", "max_output_tokens": ANSWER_TOKENS}
    usage = kept.usage("/v1/responses", {**body, "readahead": {"route": "rag"}})["usage"]
    computed = usage["input_tokens"] - usage["input_tokens_details"]["cached_tokens"]
    assert computed <= TAIL_TOKENS < usage["input_tokens"] / 3


def test_a_run_shares_the_planners_prompt_and_the_passages(kept: Kept) -> None:
    told = []
    for question in ("How are the screws of the lid tightened?", "What does old oil go to the yard in?"):
        body = {"kb": kept.name, "question": question, "stream": True}
        lines = kept.http.post("/v1/agent/runs", json=body).text.splitlines()
        events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
        told.append(next(event for event in events if event["type"] == "usage"))
    check(told[1]["llm_calls"], told[1], told[1]["computed_tokens"])


def build_pack(kept: Kept) -> None:
    kept.usage(f"/v1/vector_stores/{kept.store}/pack", {})
    wait_until(
        lambda: kept.http.get(f"/v1/vector_stores/{kept.store}/pack").json()["state"] in ("resident", "on_disk"), 120
    )


def test_on_a_pack_the_first_question_computes_no_more_than_itself_and_what_was_said(kept: Kept) -> None:
    build_pack(kept)
    field, usage = chat(kept, "Who is told of a warm gearbox?", "cag")
    assert field["route"]["chosen"] == "cag"
    check(1, usage, field["cost"]["computed_tokens"])
    assert field["route"]["estimate_from"] == "pack" and field["route"]["estimate_s"] > 0
    field, usage = chat(kept, "Where does old oil go?", "cag", "Who is told of a warm gearbox?", "The yard is told.")
    assert field["conversation"]["turns"] == 2
    check(1, usage, field["cost"]["computed_tokens"] - SAID_TOKENS)


def test_passages_in_another_order_cost_a_search_the_passages_and_a_pack_nothing(
    readahead_up: RunningReadahead, tmp_path: Path
) -> None:
    questions = ("How heavy is the Halden pump?", "How long does the warranty of the press last?")
    topics = (
        ("The Halden pump weighs {0} kilograms in its form number {0}.", 41),
        ("The oil of the old gearbox is looked at after {0} hours of work in the yard.", 600),
        ("The warranty of press number {0} lasts {0} months from the day of its delivery.", 30),
    )
    pages = [samples.lines(*(line.format(first + step) for step in range(16))) for line, first in topics]
    path = samples.write_pdf(tmp_path / "several.pdf", *pages)
    with knowledge_base(readahead_up, path) as several:
        found = [
            several.usage(f"/v1/vector_stores/{several.store}/search", {"query": question})["data"]
            for question in questions
        ]
        assert len(found[0]) > 1 and found[0][0]["page"] != found[1][0]["page"]
        for question in questions:
            _, searched = chat(several, question, "rag")
        assert searched["prompt_tokens_details"]["cached_tokens"] >= BEGINNING_TOKENS
        build_pack(several)
        for question in questions:
            field, usage = chat(several, question, "cag")
            check(1, usage, field["cost"]["computed_tokens"])
