"""Every error leaves in OpenAI's envelope, with a status that SDKs treat rightly, and without a traceback."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from tests.platform.gateway import Gateway


def envelope(response: httpx.Response) -> dict[str, str]:
    body = response.json()
    assert set(body) == {"error"}
    error: dict[str, str] = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in response.text
    return error


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/nothing/here", None, 404, "unknown_url"),
        ("PUT", "/v1/files", None, 405, "method_not_allowed"),
        ("POST", "/v1/vector_stores", b"{", 400, "invalid_json"),
        ("POST", "/v1/vector_stores", b'{"name": 3}', 400, "invalid_value"),
        ("POST", "/v1/vector_stores", b'{"name": "  "}', 400, "invalid_name"),
        ("POST", "/v1/chat/completions", b"[]", 400, "invalid_value"),
        ("POST", "/v1/chat/completions", b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}", 400, "invalid_json"),
        ("POST", "/v1/chat/completions", b'{"seed": ' + b"9" * 5000 + b"}", 400, "invalid_json"),
        ("POST", "/v1/chat/completions", b'{"model": "\xff"}', 400, "invalid_json"),
        ("POST", "/v1/chat/completions", b'{"model": "\xed\xa0\x80"}', 400, "invalid_value"),
        ("GET", "/v1/vector_stores?limit=0", None, 400, "invalid_value"),
        ("POST", "/v1/files", b"no form", 400, "invalid_value"),
        ("GET", "/v1/files/file-unknown", None, 404, "not_found"),
        ("GET", "/v1/models", None, 503, "model_unavailable"),
        ("GET", "/v1/documents/doc_x/pages/0.png?boxes=1,2", None, 400, "invalid_value"),
        ("GET", "/v1/documents/doc_x/pages/nine.png", None, 400, "invalid_value"),
    ],
)
async def test_a_bad_request_is_answered_in_the_envelope(
    gateway: Gateway, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    headers = {"Content-Type": "application/json"} if body else {}
    response = await gateway.http().request(method, path, content=body, headers=headers)
    assert response.status_code == status, response.text
    assert envelope(response)["code"] == code


async def test_a_body_over_its_bound_is_refused(gateway: Gateway) -> None:
    too_much = {"model": "kb/x", "messages": [{"role": "user", "content": "x" * (64 << 10)}]}
    declared = await gateway.http().post("/v1/chat/completions", json=too_much)
    assert (declared.status_code, envelope(declared)["code"]) == (413, "body_too_large")

    async def in_parts() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b'{"a": "' + b"x" * 1000

    chunked = await gateway.http().post("/v1/chat/completions", content=in_parts())
    assert (chunked.status_code, envelope(chunked)["code"]) == (413, "body_too_large")


async def test_every_answer_has_a_request_id(gateway: Gateway) -> None:
    http = gateway.http()
    made = (await http.get("/v1/files")).headers["x-request-id"]
    assert made.startswith("req_")
    own = await http.get("/v1/files", headers={"x-request-id": "mine-1"})
    assert own.headers["x-request-id"] == "mine-1"
    bad = await http.get("/v1/nothing", headers={"x-request-id": "a b;c"})
    assert bad.headers["x-request-id"].startswith("req_")


async def test_an_unforeseen_error_tells_nothing_of_its_inside(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(tenant: str) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(gateway.context.library.files, "list", broken)
    http = gateway.http()
    response = await http.get("/v1/files")
    assert response.status_code == 500
    assert response.headers["x-request-id"].startswith("req_")
    assert caplog.text.count("Traceback") == 1
    assert envelope(response)["code"] == "internal_error"
    assert "secret detail" not in response.text
    assert "secret detail" in caplog.text
    assert 'route="/v1/files",status="500"} 1.0' in (await http.get("/metrics")).text
    for _ in range(3):  # on the same connection, which the error has not closed
        assert (await http.get("/v1/vector_stores")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v1/chat/completions", "POST"),
        ("HEAD", "/v1/files", "GET, POST"),
        ("OPTIONS", "/v1/keys/key_x", "DELETE"),
        ("TRACE", "/v1/models", "GET"),
    ],
)
async def test_a_wrong_method_is_told_which_are_right(gateway: Gateway, method: str, path: str, allow: str) -> None:
    response = await gateway.http().request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == allow
    assert response.headers["content-type"] == "application/json"


async def test_options_of_an_unknown_path_are_unknown(gateway: Gateway) -> None:
    response = await gateway.http().options("/v1/nothing")
    assert (response.status_code, envelope(response)["code"]) == (404, "unknown_url")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", '{"model": "m", "temperature": NaN}', "temperature"),
        ("/v1/chat/completions", '{"model": "m", "temperature": 1e999}', "temperature"),
        ("/v1/chat/completions", '{"model": "m", "messages": [{"content": "\\ud800"}]}', "messages[0].content"),
        ("/v1/completions", '{"model": "m", "logit_bias": {"5": -Infinity}}', "logit_bias.5"),
        ("/v1/embeddings", '{"model": "m", "input": ["a", "\\udfff"]}', "input[1]"),
        ("/v1/vector_stores", '{"name": "half \\ud83d"}', "name"),
        ("/v1/vector_stores/x/files", '{"file_id": "\\ud83d"}', "file_id"),
        ("/v1/vector_stores/x/files", '{"file_id": "file-x", "password": "\\ud83d"}', "password"),
    ],
)
async def test_what_only_python_can_hold_is_refused_at_its_place(
    gateway: Gateway, path: str, body: str, param: str
) -> None:
    headers = {"Content-Type": "application/json"}
    response = await gateway.http().post(path, content=body, headers=headers)
    assert response.status_code == 400, response.text
    assert envelope(response)["param"] == param


async def test_a_whole_surrogate_pair_is_a_character(gateway: Gateway) -> None:
    headers = {"Content-Type": "application/json"}
    made = await gateway.http().post("/v1/vector_stores", content=b'{"name": "\\ud83d\\ude00"}', headers=headers)
    assert made.json()["name"] == "\N{GRINNING FACE}"


@pytest.mark.parametrize(
    ("method", "path", "body", "message", "param"),
    [
        ("POST", "/v1/vector_stores", b'{"name": ', "not valid JSON: Expecting value at character 9", None),
        ("POST", "/v1/vector_stores", b"", "must be a JSON object", None),
        ("GET", "/v1/vector_stores?limit=x", None, "limit: Input should be a valid integer", "limit"),
        ("POST", "/v1/vector_stores/x/search", b'{"query": 3}', "query: Input should be a valid string", "query"),
        ("POST", "/v1/chat/completions", b'{"model": "m", "stream": "yes"}', "'yes' is neither", "stream"),
        (
            "POST",
            "/v1/chat/completions",
            b'{"model": "kb/m", "messages": [{"role": "user"}], "stream": "yes"}',
            "stream: ",
            "stream",
        ),
    ],
)
async def test_a_message_names_the_field_and_nothing_of_its_reader(
    gateway: Gateway, method: str, path: str, body: bytes | None, message: str, param: str | None
) -> None:
    headers = {"Content-Type": "application/json"} if body is not None else {}
    response = await gateway.http().request(method, path, content=body, headers=headers)
    assert response.status_code == 400, response.text
    error = envelope(response)
    assert message in error["message"]
    assert error["param"] == param


async def test_an_unknown_model_is_told_with_those_there_are(gateway: Gateway) -> None:
    for number in range(22):
        await gateway.context.library.create_kb("acme", f"kb-{number}")
    body = {"model": "kb/none", "messages": [{"role": "user", "content": "Who?"}]}
    response = await gateway.http().post("/v1/chat/completions", json=body)
    message = envelope(response)["message"]
    assert "kb/kb-0, kb/kb-1," in message
    assert "and 2 more" in message


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OperationalError("INSERT secret", {}, sqlite3.OperationalError("database or disk is full")), 507, "disk_full"),
        (OperationalError("SELECT secret", {}, sqlite3.OperationalError("locked")), 503, "storage_unavailable"),
        (OSError(errno.ENOSPC, "secret"), 507, "disk_full"),
        (OSError(errno.EIO, "secret"), 500, "internal_error"),
    ],
)
async def test_a_full_disk_is_told_without_a_word_of_the_database(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    async def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(gateway.context.library, "create_kb", full)
    response = await gateway.http().post("/v1/vector_stores", json={"name": "new"})
    assert (response.status_code, envelope(response)["code"]) == (status, code)
    assert "secret" not in response.text
    assert response.headers.get("x-should-retry") == (None if status == 503 else "false")
