"""Every failure leaves in OpenAI's envelope with a status that tells clients what to do."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx
import pytest

from readahead_serving.api.app import create_app
from readahead_serving.api.models import Models, PromptTokenizer
from readahead_serving.engine.request import GenerationDelta, GenerationRequest
from readahead_serving.errors import EngineBusy, EngineUnavailable, RequestRefused, ServingError
from readahead_serving.settings import ServingSettings
from tests.serving.scripted import MODEL, WINDOW, ScriptedEngine, chat_body, delta, scripted_app, two_words

CHAT = "/v1/chat/completions"


def client_of(app: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://testserver")


async def post(tokenizer: PromptTokenizer, path: str, body: Any, script: Any = two_words, **settings: Any) -> Any:
    async with client_of(scripted_app(ScriptedEngine(script), tokenizer, **settings)) as client:
        return await client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})


def raising(error: Exception) -> Any:
    async def script(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        raise error
        yield delta(request, "", 0)

    return script


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters or None}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"top_k": 10**29}, "top_k"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [CALL]}]}, "messages[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content[0].text"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [tool("no spaces")]}, "tools[0].function.name"),
        ({"tools": [tool("f"), tool("f")]}, "tools"),
        ({"tools": [tool("f", type="array")]}, "tools[0].function.parameters"),
        ({"tools": [tool("f", properties={"a": {"type": "no type"}})]}, "tools[0].function.parameters"),
        ({"tools": [tool("f")], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [tool("f")], "structured_outputs": {"regex": "a"}}, "structured_outputs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"5": 101}}, "logit_bias"),
        ({"logit_bias": {"five": 1}}, "logit_bias.five"),
        ({"logit_bias": dict.fromkeys(range(2000), 1)}, "logit_bias"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "structured_outputs"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream": True, "stream_options": {"include_usage": "true"}}, "stream_options.include_usage"),
        ({"logprobs": "true"}, "logprobs"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"seed": 2**63}, "seed"),
        ({"timeout": 0}, "timeout"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
    ],
)
async def test_a_bad_field_is_refused_by_name(
    fields: dict[str, Any], param: str, smollm2_tokenizer: PromptTokenizer
) -> None:
    response = await post(smollm2_tokenizer, CHAT, chat_body(**fields))
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [], "tool_choice": "auto", "logprobs": False, "logit_bias": {}, "functions": None},
        {"some_field_of_tomorrow": {"x": 1}, "store": True, "metadata": {"a": "b"}},
        {"temperature": None, "top_p": None, "n": None, "stop": None, "seed": None, "stream": None},
        {
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Be"}]},
                {"role": "user", "content": "x"},
            ]
        },
    ],
    ids=["neutral values", "unknown fields", "nulls", "developer and parts"],
)
async def test_what_changes_nothing_is_accepted(fields: dict[str, Any], smollm2_tokenizer: PromptTokenizer) -> None:
    response = await post(smollm2_tokenizer, CHAT, chat_body(**fields))
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == "Hello world"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": [10**6]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [{"a": 1}]}, "prompt[0]"),
        ({"prompt": "x", "best_of": 2}, "best_of"),
        ({"prompt": "x", "suffix": "y"}, "suffix"),
        ({"prompt": "x", "logprobs": 21}, "logprobs"),
        ({"prompt": "x", "logprobs": True, "temperature": "NaN"}, "temperature"),
    ],
)
async def test_a_bad_completion_field_is_refused_by_name(
    fields: dict[str, Any], param: str, smollm2_tokenizer: PromptTokenizer
) -> None:
    response = await post(smollm2_tokenizer, "/v1/completions", {"model": MODEL, **fields})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestRefused("Bad grammar.", param="response_format", code="invalid_schema"), 400, "invalid_schema"),
        (EngineBusy("The queue is full.", 2.5), 429, "engine_busy"),
        (EngineUnavailable("The engine is starting."), 503, "engine_unavailable"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_the_engine_refuses_at_once_is_a_status_for_streams_too(
    error: ServingError, status: int, code: str, stream: bool, smollm2_tokenizer: PromptTokenizer
) -> None:
    response = await post(smollm2_tokenizer, CHAT, chat_body(stream=stream), raising(error))
    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    if status == 429:
        assert response.headers["retry-after"] == "3"
        assert response.headers["retry-after-ms"] == "2500"
    if status == 503:
        assert int(response.headers["retry-after"]) >= 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_structure_that_proves_impossible_is_the_senders_fault_and_no_success(
    stream: bool, smollm2_tokenizer: PromptTokenizer
) -> None:
    async def refuses(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        yield delta(request, "", 0, "refused", "No completion can be held to this.")

    response = await post(smollm2_tokenizer, CHAT, chat_body(stream=stream), refuses)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["message"]) == ("structure_not_followed", "No completion can be held to this.")


async def test_a_bug_is_an_internal_error_that_clients_do_not_retry(smollm2_tokenizer: PromptTokenizer) -> None:
    response = await post(smollm2_tokenizer, CHAT, chat_body(), raising(ZeroDivisionError("secret")))
    assert response.status_code == 500
    assert response.headers["x-should-retry"] == "false"
    assert response.headers["x-request-id"].startswith("req_")
    assert "secret" not in response.text
    assert response.json()["error"]["code"] == "internal_error"


async def test_prompt_and_completion_must_fit_the_window(smollm2_tokenizer: PromptTokenizer) -> None:
    prompt = [5] * (WINDOW - 10)
    fits = await post(smollm2_tokenizer, "/v1/completions", {"model": MODEL, "prompt": prompt, "max_tokens": 10})
    assert fits.status_code == 200
    over = await post(smollm2_tokenizer, "/v1/completions", {"model": MODEL, "prompt": prompt, "max_tokens": 11})
    assert over.status_code == 400
    error = over.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert error["param"] == "prompt"
    assert f"maximum context length is {WINDOW} tokens" in error["message"]


async def test_a_chat_without_a_limit_gets_what_the_window_leaves_but_no_more_than_the_default(
    smollm2_tokenizer: PromptTokenizer,
) -> None:
    for default, expected in ((100, 100), (WINDOW, None)):
        engine = ScriptedEngine(two_words)
        async with client_of(scripted_app(engine, smollm2_tokenizer, default_max_tokens=default)) as client:
            await client.post(CHAT, json=chat_body())
        request = engine.requests[0]
        assert request.sampling.max_tokens == (expected or WINDOW - len(request.prompt_tokens))


async def test_choices_of_a_seeded_request_have_seeds_of_their_own(smollm2_tokenizer: PromptTokenizer) -> None:
    engine = ScriptedEngine(two_words)
    async with client_of(scripted_app(engine, smollm2_tokenizer)) as client:
        response = await client.post(CHAT, json=chat_body(n=3, seed=2**63 - 1))
    assert response.json()["choices"][2]["index"] == 2
    assert len({request.sampling.seed for request in engine.requests}) == 3
    assert len({request.request_id for request in engine.requests}) == 3


async def test_an_unknown_model_is_not_found(smollm2_tokenizer: PromptTokenizer) -> None:
    response = await post(smollm2_tokenizer, CHAT, chat_body() | {"model": "gpt-9"})
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert response.json()["error"]["param"] == "model"


async def test_a_body_that_is_no_json_a_path_and_a_method_unknown_get_the_envelope(
    smollm2_tokenizer: PromptTokenizer,
) -> None:
    app = scripted_app(ScriptedEngine(two_words), smollm2_tokenizer)
    async with client_of(app) as client:
        broken = await client.post(CHAT, content=b"{", headers={"content-type": "application/json"})
        form = await client.post(CHAT, content=b"a=b", headers={"content-type": "text/plain"})
        lost = await client.get("/v1/nothing")
        wrong = await client.get(CHAT)
    assert [r.status_code for r in (broken, form, lost, wrong)] == [400, 400, 404, 405]
    for response in (broken, form, lost, wrong):
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
        assert response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("body", "says"),
    [(b'{"model": }', "at character 10"), (b'{"model": "x"', "at character 13"), (b"\xff", "UTF-8")],
)
async def test_what_is_wrong_with_json_is_told_with_its_place(
    body: bytes, says: str, smollm2_tokenizer: PromptTokenizer
) -> None:
    async with client_of(scripted_app(ScriptedEngine(two_words), smollm2_tokenizer)) as client:
        response = await client.post(CHAT, content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    error = response.json()["error"]
    assert says in error["message"]
    assert (error["param"], error["code"]) == (None, "invalid_json")


async def test_a_method_that_a_path_does_not_take_is_told_with_those_that_it_takes(
    smollm2_tokenizer: PromptTokenizer,
) -> None:
    async with client_of(scripted_app(ScriptedEngine(two_words), smollm2_tokenizer)) as client:
        for path, allow in ((CHAT, "POST"), ("/v1/models", "GET, HEAD"), ("/v1/packs/x", "GET, HEAD, PATCH, DELETE")):
            wrong = await client.put(path)
            assert (wrong.status_code, wrong.headers["allow"]) == (405, allow)
            assert wrong.json()["error"]["code"] == "method_not_allowed"
            asked = await client.options(path)
            assert (asked.status_code, asked.headers["allow"], asked.content) == (204, allow, b"")
        head, got = await client.head("/v1/models"), await client.get("/v1/models")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        (CHAT, {"messages": [{"role": "user", "content": "word " * 50_000}]}, "messages"),
        ("/v1/completions", {"prompt": "word " * 50_000}, "prompt"),
        ("/v1/completions", {"prompt": ["short", "word " * 50_000]}, "prompt"),
    ],
)
async def test_a_hopeless_prompt_is_refused_by_its_length_alone(
    path: str, fields: dict[str, Any], param: str, smollm2_tokenizer: PromptTokenizer
) -> None:
    response = await post(smollm2_tokenizer, path, {"model": MODEL, **fields})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", param)
    assert "you requested at least" in error["message"], "not counted"


async def test_white_space_that_a_template_trims_is_no_hopeless_prompt(smollm2_tokenizer: PromptTokenizer) -> None:
    asked = chat_body(messages=[{"role": "user", "content": "Hi" + " " * 100_000}])
    error = (await post(smollm2_tokenizer, CHAT, asked)).json()["error"]
    assert "at least" not in error["message"]


async def test_more_completions_than_are_ever_taken_at_once_are_refused_for_good(
    smollm2_tokenizer: PromptTokenizer,
) -> None:
    limits = {"max_running": 2, "max_waiting": 6}
    prompts: dict[str, Any] = {"model": MODEL, "prompt": ["a", "b", "c"]}
    over = await post(smollm2_tokenizer, "/v1/completions", prompts | {"n": 3}, **limits)
    assert over.status_code == 400
    assert (over.json()["error"]["param"], over.json()["error"]["code"]) == ("n", "too_many_completions")
    assert (await post(smollm2_tokenizer, "/v1/completions", prompts | {"n": 2}, **limits)).status_code == 200
    shared = await post(smollm2_tokenizer, CHAT, chat_body(n=5), tenant_share=0.5, **limits)
    assert shared.status_code == 400
    assert "4 at most" in shared.json()["error"]["message"]


@pytest.mark.parametrize("announced", [True, False], ids=["by its length", "as it comes"])
async def test_a_body_over_the_limit_is_refused(announced: bool, smollm2_tokenizer: PromptTokenizer) -> None:
    body = json.dumps(chat_body(user="x" * 2000)).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 500):
            yield body[at : at + 500]

    app = scripted_app(ScriptedEngine(two_words), smollm2_tokenizer, max_body_bytes=1024)
    async with client_of(app) as client:
        headers = {"content-type": "application/json"}
        response = await client.post(CHAT, content=body if announced else pieces(), headers=headers)
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "request_too_large"


async def test_the_key_opens_everything_but_the_health_checks(smollm2_tokenizer: PromptTokenizer) -> None:
    app = scripted_app(ScriptedEngine(two_words), smollm2_tokenizer, api_key="s3cret")
    async with client_of(app) as client:
        for path in ("/v1/models", "/metrics", "/v1/nothing"):
            refused = await client.get(path)
            assert refused.status_code == 401
            assert refused.json()["error"]["code"] == "invalid_api_key"
        assert (await client.get("/v1/models", headers={"authorization": "Bearer s3cre"})).status_code == 401
        assert (await client.get("/v1/models", headers={b"authorization": "Bearer sécret".encode()})).status_code == 401
        assert (await client.get("/v1/models", headers={"authorization": "Bearer s3cret"})).status_code == 200
        assert (await client.get("/health/live")).status_code == 200


async def test_the_callers_request_id_comes_back_if_it_is_sane(smollm2_tokenizer: PromptTokenizer) -> None:
    async with client_of(scripted_app(ScriptedEngine(two_words), smollm2_tokenizer)) as client:
        kept = await client.get("/v1/models", headers={"x-request-id": "trace-7.a"})
        made = await client.get("/v1/models", headers={"x-request-id": "a b"})
    assert kept.headers["x-request-id"] == "trace-7.a"
    assert made.headers["x-request-id"].startswith("req_")


async def test_a_server_that_still_loads_is_live_but_not_ready() -> None:
    async with client_of(create_app(ServingSettings(), Models(expected=(MODEL,)))) as client:
        assert (await client.get("/health/live")).status_code == 200
        ready = await client.get("/health/ready")
        chat = await client.post(CHAT, json=chat_body())
    assert ready.status_code == 503
    assert ready.json()["reason"] == "scripted is loading"
    assert chat.status_code == 503
    assert "retry-after" in chat.headers


async def test_an_engine_without_progress_is_not_ready(smollm2_tokenizer: PromptTokenizer) -> None:
    engine = ScriptedEngine(two_words)
    async with client_of(scripted_app(engine, smollm2_tokenizer)) as client:
        assert (await client.get("/health/ready")).status_code == 200
        engine.ready = False
        assert (await client.get("/health/ready")).status_code == 503


async def test_metrics_tell_what_was_served_and_what_was_refused(smollm2_tokenizer: PromptTokenizer) -> None:
    async with client_of(scripted_app(ScriptedEngine(two_words), smollm2_tokenizer)) as client:
        await client.post(CHAT, json=chat_body(n=2))
        await client.post(CHAT, json=chat_body(model="gpt-9"))
        text = (await client.get("/metrics")).text
    assert 'readahead_requests_total{finish_reason="stop"} 2.0' in text
    assert "readahead_completion_tokens_total 4.0" in text
    assert "readahead_time_to_first_token_seconds_count 2.0" in text
    assert "readahead_time_between_tokens_seconds_count 2.0" in text
    assert 'readahead_rejections_total{reason="model_not_found"} 1.0' in text
    assert "readahead_kv_tokens_total 512.0" in text
