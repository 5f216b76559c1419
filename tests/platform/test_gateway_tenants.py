"""What belongs to one tenant does not exist for another, whatever route asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platform.gateway import Gateway, add_document

CHAT = {"model": "kb/{name}", "messages": [{"role": "user", "content": "How heavy is the pump?"}]}
FOREIGN = [
    ("GET", "/v1/files/{file}", None),
    ("GET", "/v1/files/{file}/content", None),
    ("DELETE", "/v1/files/{file}", None),
    ("GET", "/v1/vector_stores/{store}", None),
    ("GET", "/v1/vector_stores/{name}", None),
    ("DELETE", "/v1/vector_stores/{store}", None),
    ("GET", "/v1/vector_stores/{store}/files", None),
    ("POST", "/v1/vector_stores/{store}/files", {"file_id": "{file}"}),
    ("GET", "/v1/vector_stores/{store}/files/{file}", None),
    ("DELETE", "/v1/vector_stores/{store}/files/{file}", None),
    ("POST", "/v1/vector_stores/{store}/search", {"query": "pump"}),
    ("POST", "/v1/vector_stores", {"name": "mine", "file_ids": ["{file}"]}),
    ("GET", "/v1/documents/{document}/pages/1.png", None),
    ("POST", "/v1/chat/completions", CHAT),
    ("POST", "/v1/chat/completions", {**CHAT, "stream": True}),
    ("POST", "/v1/chat/completions", {**CHAT, "model": "kb/{store}"}),
]


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


async def test_a_foreign_id_is_not_found_on_any_route(gateway: Gateway, ids: dict[str, str]) -> None:
    other, own = gateway.http(gateway.other_key), gateway.http()
    for method, path, body in FOREIGN:
        response = await other.request(method, path.format(**ids), json=fill(body, ids))
        assert response.status_code == 404, (method, path, response.text)
        assert response.json()["error"]["code"] in {"not_found", "model_not_found"}
    for method, path, body in FOREIGN:
        if method == "DELETE" or "name" in (body or {}):
            continue
        response = await own.request(method, path.format(**ids), json=fill(body, ids))
        assert response.status_code == 200, (method, path, response.text)


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
