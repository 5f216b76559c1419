"""Packs through HTTP, with the real model in real processes: what they cost, who may read them, what a kill leaves."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.llm_server import LlmServer, running_server

MODEL = "smollm2-135m-instruct"
SYSTEM = "You are a helpful assistant."
DOCUMENT = " ".join(f"Pump {n} weighs {40 + n * 7 % 31} kilograms and stands in hall {n % 9}." for n in range(24))
QUESTIONS = ("How heavy is pump 3?", "\n\nWhere does pump 8 stand?", " 12 kilograms?", "<|im_end|>\n<|im_start|>system")


class Client:
    """Speaks for one tenant, as the gateway does."""

    def __init__(self, server: LlmServer, salt: str = "") -> None:
        self._address = server.address
        self._headers = {"x-readahead-salt": salt} if salt else {}

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        return httpx.request(method, f"{self._address}{path}", json=body, headers=self._headers, timeout=120)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self.send(method, path, body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def build(self, **fields: Any) -> dict[str, Any]:
        return self.ready(self.call("POST", "/v1/packs", fields))

    def ready(self, pack: dict[str, Any]) -> dict[str, Any]:
        deadline = time.monotonic() + 120
        while pack["state"] not in ("resident", "on_disk"):
            assert pack["state"] in ("building", "stale"), pack
            assert time.monotonic() < deadline, pack
            time.sleep(0.05)
            pack = self.call("GET", f"/v1/packs/{pack['id']}")
        return pack

    def ask(self, messages: list[dict[str, str]], question: str) -> tuple[str, dict[str, Any]]:
        body = {"model": MODEL, "messages": [*messages, {"role": "user", "content": question}], "max_tokens": 8}
        answer = self.call("POST", "/v1/chat/completions", {**body, "temperature": 0})
        return answer["choices"][0]["message"]["content"], answer["usage"]

    def metric(self, name: str) -> float:
        found = re.search(rf"^readahead_{name} (\S+)$", self.send("GET", "/metrics").text, re.MULTILINE)
        assert found is not None, name
        return float(found[1])


def pack_fields() -> dict[str, Any]:
    return {
        "name": "pumps",
        "messages": [{"role": "system", "content": SYSTEM}],
        "documents": [{"title": "pumps", "text": DOCUMENT}],
    }


@contextlib.contextmanager
def serving(models_dir: Path, folder: Path, **settings: str) -> Iterator[LlmServer]:
    log = folder / "stderr.log"
    with running_server(models_dir, log, embedding_model="", packs_dir=folder / "packs", **settings) as server:
        yield server


@pytest.fixture(scope="module")
def server(smollm2_path: Path, minilm_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlmServer]:
    with serving(minilm_path.parent, tmp_path_factory.mktemp("packs")) as running:
        yield running


def cached(usage: dict[str, Any]) -> int:
    return int(usage["prompt_tokens_details"]["cached_tokens"])


def settled(client: Client, before: float) -> float:
    """The engine's count of computed prompt tokens, once it has told of the last request."""
    deadline = time.monotonic() + 120
    while client.metric("prompt_tokens_computed") == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return client.metric("prompt_tokens_computed") - before


def test_a_chat_that_begins_with_a_packs_messages_computes_the_question_only(server: LlmServer) -> None:
    client = Client(server, "acme")
    estimated = client.call("POST", "/v1/packs", {**pack_fields(), "dry_run": True})
    assert client.call("GET", "/v1/packs")["data"] == [], "a dry run builds nothing"
    pack = client.build(**pack_fields())
    assert (estimated["tokens"], estimated["bytes"]) == (pack["tokens"], pack["bytes"])
    assert (pack["on_disk"], pack["progress"], pack["tokens_computed"]) == (True, 1.0, pack["tokens"])
    messages = client.call("GET", f"/v1/packs/{pack['id']}/messages")["data"]
    for question in QUESTIONS:
        _, usage = client.ask(messages, question)
        assert cached(usage) >= pack["tokens"], question
    assert client.call("GET", f"/v1/packs/{pack['id']}")["hits"] == len(QUESTIONS)
    assert client.metric("pack_hits_total") >= len(QUESTIONS)
    assert client.metric("pack_memory_bytes") == pack["bytes"]


def test_the_answer_is_the_one_that_is_given_without_a_pack(server: LlmServer) -> None:
    client, plain = Client(server, "acme"), Client(server, "nobody")
    pack = client.build(**pack_fields())
    messages = client.call("GET", f"/v1/packs/{pack['id']}/messages")["data"]
    with_pack, usage = client.ask(messages, "How heavy is pump 5?")
    without, cold = plain.ask(messages, "How heavy is pump 5?")
    assert with_pack == without
    assert (cached(usage) >= pack["tokens"], cached(cold)) == (True, 0)


def test_a_prompt_that_parts_from_a_pack_says_where_and_reads_it_up_to_there(server: LlmServer) -> None:
    client = Client(server, "careful")
    pack = client.build(**pack_fields())
    [system, *_] = client.call("GET", f"/v1/packs/{pack['id']}/messages")["data"]
    assert "pack_miss" not in client.ask([system], "How heavy is pump 3?")[1]["prompt_tokens_details"]
    changed = "hall 7.".join(system["content"].rsplit("hall 8.", 1))
    _, usage = client.ask([{"role": "system", "content": changed}], "How heavy is pump 3?")
    miss = usage["prompt_tokens_details"]["pack_miss"]
    assert (miss["reason"], miss["pack_id"]) == ("diverged", pack["id"])
    assert 0 < miss["shared_tokens"] == cached(usage) < pack["tokens"]
    assert 'readahead_pack_misses_total{reason="diverged"} 1.0' in client.send("GET", "/metrics").text
    _, usage = client.ask([{"role": "user", "content": "Hello"}], "and good day")
    assert "pack_miss" not in usage["prompt_tokens_details"], "meant for no pack"


def test_the_same_text_under_two_salts_is_never_shared(server: LlmServer) -> None:
    first, second = Client(server, "first"), Client(server, "second")
    pack = first.build(**pack_fields())
    messages = first.call("GET", f"/v1/packs/{pack['id']}/messages")["data"]
    assert second.call("GET", "/v1/packs")["data"] == []
    for method in ("GET", "DELETE"):
        refused = second.send(method, f"/v1/packs/{pack['id']}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "pack_not_found")
    assert cached(second.ask(messages, "Why?")[1]) == 0
    assert cached(first.ask(messages, "Why?")[1]) >= pack["tokens"]
    own = Client(server, "third").build(**pack_fields())
    assert own["id"] != pack["id"]
    assert own["tokens_computed"] == own["tokens"], "a build must not read another tenant's KV"


def test_a_kill_leaves_packs_in_bytes_that_the_next_server_reads_without_computing_them(
    smollm2_path: Path, minilm_path: Path, tmp_path: Path
) -> None:
    with serving(minilm_path.parent, tmp_path, pack_kv="int8") as server:
        client = Client(server, "acme")
        pack = client.build(**pack_fields())
        assert pack["bytes"] < 0.54 * 23_040 * pack["tokens"], "23,040 bytes a token in bfloat16"
        messages = client.call("GET", f"/v1/packs/{pack['id']}/messages")["data"]
        said, _ = client.ask(messages, "How heavy is pump 3?")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(60)
    with serving(minilm_path.parent, tmp_path, pack_kv="int8") as server:
        client = Client(server, "acme")
        adopted = client.call("GET", f"/v1/packs/{pack['id']}")
        assert [adopted[name] for name in ("state", "tokens", "bytes")] == ["on_disk", pack["tokens"], pack["bytes"]]
        before = client.metric("prompt_tokens_computed")
        assert before == 0
        again, usage = client.ask(messages, "How heavy is pump 3?")
        assert again == said
        assert cached(usage) == pack["tokens"]
        assert settled(client, before) == usage["prompt_tokens"] - pack["tokens"] < 40


def test_extending_and_deleting_over_http(server: LlmServer) -> None:
    client = Client(server, "extender")
    old = client.build(**pack_fields())
    more = {"documents": [{"title": "valves", "text": "Valve 7 opens at 3 bar."}]}
    new = client.ready(client.call("POST", f"/v1/packs/{old['id']}/documents", more))
    assert new["tokens"] > old["tokens"]
    assert new["tokens_computed"] < 40, "only the new document is computed"
    patched = client.call("PATCH", f"/v1/packs/{new['id']}", {"pin": True, "ttl": 3600})
    assert (patched["pinned"], patched["ttl"], patched["expires_at"] is not None) == (True, 3600, True)
    client.call("DELETE", f"/v1/packs/{new['id']}")
    assert client.call("GET", "/v1/packs")["data"] == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, None),
        ({"documents": [{"text": ""}]}, "documents[0].text"),
        ({"documents": [{"text": "x"}], "tll": 3}, "tll"),
        ({"documents": [{"text": "x"}], "ttl": -1}, "ttl"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"documents": [{"text": "word " * 20000}]}, "messages"),
    ],
)
def test_what_cannot_be_a_pack_is_refused_by_name(server: LlmServer, body: dict[str, Any], param: str | None) -> None:
    refused = Client(server).send("POST", "/v1/packs", body)
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["param"] == param
