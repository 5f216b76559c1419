"""What belongs to one tenant does not exist for another, whatever route asks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from readahead_platform.gateway.app import create_app
from tests.platform.gateway import Gateway, add_document

CHAT = {"model": "kb/{name}", "messages": [{"role": "user", "content": "How heavy is the pump?"}]}
ASKED = {"model": "kb/{name}", "input": "How heavy is the pump?"}
ITEMS = {"items": [{"role": "user", "content": "How heavy is the pump?"}]}
FOREIGN: list[tuple[str, str, dict[str, Any] | None]] = [
    ("GET", "/v1/files/{file}", None),
    ("GET", "/v1/files/{file}/content", None),
    ("DELETE", "/v1/files/{file}", None),
    ("GET", "/v1/vector_stores/{store}", None),
    ("GET", "/v1/vector_stores/{name}", None),
    ("POST", "/v1/vector_stores/{store}", {"name": "mine"}),
    ("DELETE", "/v1/vector_stores/{store}", None),
    ("POST", "/v1/vector_stores/{store}/refresh", None),
    ("GET", "/v1/vector_stores/{store}/files", None),
    ("POST", "/v1/vector_stores/{store}/files", {"file_id": "{file}"}),
    ("GET", "/v1/vector_stores/{store}/files/{file}", None),
    ("POST", "/v1/vector_stores/{store}/files/{file}", {"attributes": {"mine": True}}),
    ("GET", "/v1/vector_stores/{store}/files/{file}/content", None),
    ("DELETE", "/v1/vector_stores/{store}/files/{file}", None),
    ("POST", "/v1/vector_stores/{store}/file_batches", {"file_ids": ["{file}"]}),
    ("GET", "/v1/vector_stores/{store}/file_batches/{batch}", None),
    ("POST", "/v1/vector_stores/{store}/file_batches/{batch}/cancel", None),
    ("GET", "/v1/vector_stores/{store}/file_batches/{batch}/files", None),
    ("POST", "/v1/vector_stores/{store}/search", {"query": "pump"}),
    ("POST", "/v1/vector_stores/{store}/retrieval_test", {"query": "pump"}),
    ("POST", "/v1/vector_stores", {"name": "mine", "file_ids": ["{file}"]}),
    ("GET", "/v1/vector_stores/{store}/pack", None),
    ("POST", "/v1/vector_stores/{store}/pack", {}),
    ("DELETE", "/v1/vector_stores/{store}/pack", None),
    ("GET", "/v1/documents/{document}/pages/1.png", None),
    ("GET", "/v1/documents/{document}/chunks", None),
    ("GET", "/v1/documents/{document}/chunks/{chunk}", None),
    ("POST", "/v1/documents/{document}/chunks/{chunk}", {"disabled": True}),
    ("GET", "/v1/jobs/{job}", None),
    ("GET", "/v1/jobs/{job}/events", None),
    ("POST", "/v1/jobs/{job}/cancel", None),
    ("POST", "/v1/jobs/{job}/retry", {}),
    ("POST", "/v1/chat/completions", CHAT),
    ("POST", "/v1/chat/completions", {**CHAT, "stream": True}),
    ("POST", "/v1/chat/completions", {**CHAT, "model": "kb/{store}"}),
    ("POST", "/v1/responses", ASKED),
    ("POST", "/v1/responses", {"model": "any", "input": "Go on.", "previous_response_id": "{response}"}),
    ("POST", "/v1/responses", {"model": "any", "input": "Go on.", "conversation": "{conversation}"}),
    ("GET", "/v1/responses/{response}", None),
    ("GET", "/v1/responses/{response}?stream=true", None),
    ("GET", "/v1/responses/{response}/input_items", None),
    ("POST", "/v1/responses/{response}/cancel", None),
    ("DELETE", "/v1/responses/{response}", None),
    ("POST", "/v1/agent/runs", {"kb": "{name}", "question": "How heavy is the pump?"}),
    ("GET", "/v1/agent/runs/{run}", None),
    ("GET", "/v1/agent/runs/{run}/events", None),
    ("POST", "/v1/agent/runs/{run}/cancel", None),
    ("POST", "/v1/agent/runs/{run}/approvals/any", {"approve": True}),
    ("GET", "/v1/conversations/{conversation}", None),
    ("POST", "/v1/conversations/{conversation}", {"metadata": {"mine": "yes"}}),
    ("DELETE", "/v1/conversations/{conversation}", None),
    ("GET", "/v1/conversations/{conversation}/items", None),
    ("POST", "/v1/conversations/{conversation}/items", ITEMS),
    ("GET", "/v1/conversations/{conversation}/items/{item}", None),
    ("DELETE", "/v1/conversations/{conversation}/items/{item}", None),
    ("DELETE", "/v1/keys/{key}", None),
]
CHANGES = ("/cancel", "/retry", "/refresh", "/pack", "/approvals/any")
"""Routes that the owner need not try too: what they change, or tell without a model's server, is tested elsewhere."""
NOT_OURS = {"/v1/packs/{pack}", "/v1/packs/{pack}/documents", "/v1/packs/{pack}/messages", "/v1/models/{model}"}
"""The model's server answers these, and keeps tenants apart by their salts."""


def fill(value: object, ids: dict[str, str]) -> object:
    if isinstance(value, str):
        return value.format(**ids)
    if isinstance(value, list):
        return [fill(item, ids) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, ids) for key, item in value.items()}
    return value


@pytest.fixture
async def ids(gateway: Gateway, manual: Path) -> dict[str, str]:
    """Of a document of tenant acme."""
    return {**await add_document(gateway, "manuals", manual), "name": "manuals"}


async def made_of(gateway: Gateway, ids: dict[str, str]) -> dict[str, str]:
    """Ids of all else that acme may have."""
    sdk, http = gateway.sdk(), gateway.http()
    batch = await sdk.vector_stores.file_batches.create(ids["store"], file_ids=[ids["file"]])
    response = await sdk.responses.create(model="kb/manuals", input="How heavy is the pump?", background=True)
    async for _ in await sdk.responses.retrieve(response.id, stream=True):
        pass
    run = (await http.post("/v1/agent/runs", json={"kb": "manuals", "question": "How heavy is the pump?"})).json()
    await http.get(f"/v1/agent/runs/{run['id']}/events")
    conversation = (await http.post("/v1/conversations", json=ITEMS)).json()["id"]
    items = (await http.get(f"/v1/conversations/{conversation}/items")).json()["data"]
    chunks = (await http.get(f"/v1/documents/{ids['document']}/chunks")).json()["data"]
    return {
        "batch": batch.id,
        "response": response.id,
        "run": run["id"],
        "conversation": conversation,
        "item": items[0]["id"],
        "chunk": chunks[0]["id"],
        "job": ids["document"].replace("doc_", "job_"),
        "key": (await http.get("/v1/keys")).json()["data"][0]["id"],
    }


async def test_a_foreign_id_is_not_found_on_any_route(gateway: Gateway, ids: dict[str, str]) -> None:
    ids = {**ids, **await made_of(gateway, ids)}
    other, own = gateway.http(gateway.other_key), gateway.http()
    for method, path, body in FOREIGN:
        response = await other.request(method, path.format(**ids), json=fill(body, ids))
        assert response.status_code == 404, (method, path, response.text)
        assert response.json()["error"]["code"].endswith("not_found"), (method, path, response.text)
    for method, path, body in FOREIGN:
        if method == "DELETE" or "name" in (body or {}) or path.endswith(CHANGES):
            continue
        response = await own.request(method, path.format(**ids), json=fill(body, ids))
        assert response.is_success, (method, path, response.text)


async def test_every_route_that_takes_an_id_is_tried_with_a_foreign_one(gateway: Gateway) -> None:
    tried = [(method, path.partition("?")[0]) for method, path, _ in FOREIGN]
    untried = [
        f"{method.upper()} {path}"
        for path, methods in create_app(gateway.context).openapi()["paths"].items()
        for method in methods
        if "{" in path and path not in NOT_OURS
        if not any(method.upper() == done and re.fullmatch(_pattern(path), given) for done, given in tried)
    ]
    assert not untried


def _pattern(path: str) -> str:
    return "[^/]+".join(map(re.escape, re.split(r"\{\w+\}", path)))


async def test_lists_hold_nothing_of_another_tenant(gateway: Gateway, ids: dict[str, str]) -> None:
    for path in ("/v1/files", "/v1/vector_stores"):
        assert (await gateway.http(gateway.other_key).get(path)).json()["data"] == []
        assert len((await gateway.http().get(path)).json()["data"]) == 1


async def test_two_tenants_may_use_one_name(gateway: Gateway, ids: dict[str, str]) -> None:
    store = await gateway.sdk(gateway.other_key).vector_stores.create(name="manuals")
    assert store.id != ids["store"]
    assert store.file_counts.total == 0


async def test_a_signed_link_opens_one_document_without_a_key(gateway: Gateway, ids: dict[str, str]) -> None:
    nobody = gateway.http("")
    link = gateway.context.page_links.url("acme", ids["document"], 2)
    image = await nobody.get(link)
    assert image.status_code == 200
    assert image.content.startswith(b"\x89PNG")
    assert (await nobody.get(link.replace("acme", "globex"))).status_code == 401
    elsewhere = link.replace(ids["document"], "doc_other")
    assert (await nobody.get(elsewhere)).status_code == 401
    files = link.replace(f"/v1/documents/{ids['document']}/pages/2.png", f"/v1/files/{ids['file']}")
    assert (await nobody.get(files)).status_code == 401
    beyond = gateway.context.page_links.url("acme", ids["document"], 4)
    assert (await nobody.get(beyond)).status_code == 404
