"""What the API process costs, and that no body can hold it or kill what is behind it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx
import pytest

from tests.serving.llm_server import LlmServer

MODEL = "smollm2-135m-instruct"
CHAT = "/v1/chat/completions"


def test_the_api_process_never_imports_torch() -> None:
    program = "import sys, readahead_serving.cli; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def chat(**fields: Any) -> str:
    return json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x"}], "max_tokens": 1, **fields})


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def schema(of: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "s", "schema": of}}


ENDLESS = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "additionalProperties": False}
LARGE_NAMES = [f"p{n}" for n in range(1900)]
LARGE = {"type": "object", "properties": {name: {"type": "null"} for name in LARGE_NAMES}, "required": LARGE_NAMES}
DEEP_SCHEMA = '{"type":"array","items":' * 400 + "{}" + "}" * 400
PAYLOADS: dict[str, tuple[str, str | bytes, int]] = {
    "no messages": (CHAT, chat(messages=[]), 400),
    "an out-of-vocabulary stop token id, which is no field of ours": (CHAT, chat(stop_token_ids=[10**9]), 200),
    "min_tokens, which is no field of ours": (CHAT, chat(min_tokens=10), 200),
    "an enormous n": (CHAT, chat(n=10**12), 400),
    "an integer beyond 64 bits": (CHAT, chat(seed=10**40), 400),
    "NaN": (CHAT, chat(temperature=float("nan")), 400),
    "Infinity": (CHAT, chat(presence_penalty=float("inf")), 400),
    "a NaN bias": (CHAT, chat(logit_bias={"1": float("nan")}), 400),
    "more messages than a conversation has": (CHAT, chat(messages=[{"role": "user", "content": "x"}] * 200_000), 400),
    "more parts than a conversation has": (
        CHAT,
        chat(messages=[{"role": "user", "content": [{"type": "text", "text": ""}] * 200_000}]),
        400,
    ),
    "more values than a window holds": (
        "/v1/completions",
        f'{{"model":"{MODEL}","prompt":[0{",0" * 2_000_000}]}}',
        413,
    ),
    "deep JSON in a field of ours": (CHAT, f'{{"model":"{MODEL}","messages":{nested(100_000)}}}', 400),
    "deep JSON in a field of nobody's": (CHAT, f'{{"model":"{MODEL}","x":{nested(100_000)}}}', 400),
    "a deep schema": (
        CHAT,
        chat()[:-1] + f',"response_format":{{"type":"json_schema","json_schema":{{"schema":{DEEP_SCHEMA}}}}}}}',
        400,
    ),
    "a schema that is itself": (CHAT, chat(response_format=schema({"$ref": "#"})), 400),
    "a schema that nests without end": (CHAT, chat(response_format=schema(ENDLESS)), 400),
    "a schema that leaves too much open": (
        CHAT,
        chat(response_format=schema({"type": "object", "properties": {f"p{n}": {} for n in range(2000)}})),
        400,
    ),
    "a large schema, sixteen times": (CHAT, chat(n=16, response_format=schema(LARGE)), 200),
    "a tool whose schema nests without end": (
        CHAT,
        chat(tools=[{"type": "function", "function": {"name": "f", "parameters": ENDLESS}}]),
        400,
    ),
    "half a surrogate pair in a message": (CHAT, chat(messages=[{"role": "user", "content": "\ud83d"}]), 400),
    "half a surrogate pair in a stop": (CHAT, chat(stop="\ud83d"), 400),
    "half a surrogate pair in a schema": (
        CHAT,
        chat(response_format={"type": "json_schema", "json_schema": {"schema": {"const": "\ud83d"}}}),
        400,
    ),
    "half a surrogate pair in a tool": (
        CHAT,
        chat(tools=[{"type": "function", "function": {"name": "f", "description": "\ud83d"}}]),
        400,
    ),
    "half a surrogate pair in a tool's schema": (
        CHAT,
        chat(tools=[{"type": "function", "function": {"name": "f", "parameters": {"title": "\ud83d"}}}]),
        400,
    ),
    "a token id outside the vocabulary": (
        "/v1/completions",
        json.dumps({"model": MODEL, "prompt": [49_152], "max_tokens": 1}),
        400,
    ),
    "a negative token id": ("/v1/completions", json.dumps({"model": MODEL, "prompt": [-1], "max_tokens": 1}), 400),
    "token ids beyond 64 bits": ("/v1/completions", json.dumps({"model": MODEL, "prompt": [10**30]}), 400),
    "NUL and control characters": (CHAT, chat(messages=[{"role": "user", "content": "\0\x1b\x7f"}]), 200),
    "a byte that is no UTF-8": (CHAT, b'{"model":"\xff"}', 400),
    "no object": (CHAT, "[]", 400),
    "nothing": (CHAT, "", 400),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_crafted_body_gets_its_answer_and_the_engine_lives_on(name: str, llm_server: LlmServer) -> None:
    path, body, status = PAYLOADS[name]
    with httpx.Client(base_url=llm_server.address, timeout=120) as http:
        answer = http.post(path, content=body, headers={"content-type": "application/json"})
        assert answer.status_code == status, answer.text
        if status != 200:
            assert answer.json()["error"]["type"] == "invalid_request_error"
        assert http.post(CHAT, content=chat()).status_code == 200
