"""Every error leaves in OpenAI's envelope, with a status that SDKs treat rightly, and without a traceback."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

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
        ("PUT", "/v1/files", None, 404, "unknown_url"),
        ("POST", "/v1/vector_stores", b"{", 400, "invalid_value"),
        ("POST", "/v1/vector_stores", b'{"name": 3}', 400, "invalid_value"),
        ("POST", "/v1/vector_stores", b'{"name": "  "}', 400, "invalid_name"),
        ("POST", "/v1/chat/completions", b"[]", 400, "invalid_value"),
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

    monkeypatch.setattr(gateway.context.library, "list_files", broken)
    response = await gateway.http().get("/v1/files")
    assert response.status_code == 500
    assert envelope(response)["code"] == "internal_error"
    assert "secret detail" not in response.text
    assert "secret detail" in caplog.text
