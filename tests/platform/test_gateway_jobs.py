"""Jobs and chunks over HTTP, pages of deleted documents, and that none of it shows to another tenant."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.platform.gateway import Gateway, add_document
from tests.platform.running import client_environment, readahead
from tests.platform.test_gateway_documents import bad_file
from tests.platform.test_gateway_tenants import fill

FOREIGN = [
    ("POST", "/v1/vector_stores/{store}", {"name": "mine"}),
    ("POST", "/v1/vector_stores/{store}/files/{file}", {"attributes": {}}),
    ("GET", "/v1/vector_stores/{store}/files/{file}/content", None),
    ("POST", "/v1/vector_stores/{store}/file_batches", {"file_ids": ["{file}"]}),
    ("GET", "/v1/vector_stores/{store}/file_batches/{batch}", None),
    ("GET", "/v1/vector_stores/{store}/file_batches/{batch}/files", None),
    ("POST", "/v1/vector_stores/{store}/file_batches/{batch}/cancel", {}),
    ("POST", "/v1/vector_stores/{store}/retrieval_test", {"query": "pump"}),
    ("GET", "/v1/jobs?vector_store_id={store}", None),
    ("GET", "/v1/jobs/{job}", None),
    ("GET", "/v1/jobs/{job}/events", None),
    ("POST", "/v1/jobs/{job}/cancel", {}),
    ("POST", "/v1/jobs/{job}/retry", {}),
    ("GET", "/v1/documents/{document}/chunks", None),
    ("GET", "/v1/documents/{document}/chunks/{chunk}", None),
    ("POST", "/v1/documents/{document}/chunks/{chunk}", {"disabled": True}),
]


@pytest.fixture
async def ids(gateway: Gateway, manual: Path) -> dict[str, str]:
    """Of a document of tenant acme, searchable."""
    ids = await add_document(gateway, "manuals", manual)
    sdk, http = gateway.sdk(), gateway.http()
    batch = await sdk.vector_stores.file_batches.create(ids["store"], file_ids=[ids["file"]])
    chunk = (await http.get(f"/v1/documents/{ids['document']}/chunks")).json()["data"][0]
    return {**ids, "batch": batch.id, "job": ids["document"].replace("doc_", "job_"), "chunk": chunk["id"]}


async def test_nothing_of_another_tenant_is_found_or_changed(gateway: Gateway, ids: dict[str, str]) -> None:
    other, own = gateway.http(gateway.other_key), gateway.http()
    for method, path, body in FOREIGN:
        response = await other.request(method, path.format(**ids), json=fill(body, ids))
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found"), (path, response.text)
    assert (await other.get("/v1/jobs")).json()["data"] == []
    for method, path, _ in FOREIGN:
        if method == "GET":
            response = await own.get(path.format(**ids))
            assert response.status_code == 200, (path, response.text)
    assert (await own.get(f"/v1/vector_stores/{ids['store']}")).json()["name"] == "manuals"


async def test_a_job_streams_its_stages_until_it_is_done(gateway: Gateway, manual: Path) -> None:
    sdk, http = gateway.sdk(), gateway.http()
    store = await sdk.vector_stores.create(name="manuals")
    file = await sdk.files.create(file=manual, purpose="assistants")
    added = await sdk.vector_stores.files.create(store.id, file_id=file.id)
    job = (added.model_extra or {})["job_id"]
    async with http.stream("GET", f"/v1/jobs/{job}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") async for line in stream.aiter_lines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    events = [json.loads(line) for line in lines[:-1]]
    assert events[-1] == (await http.get(f"/v1/jobs/{job}")).json()
    last = events[-1]
    assert (last["state"], last["pages_done"], last["chunks_done"]) == ("searchable", 3, last["chunks"])
    assert last["finished_at"] >= last["started_at"] >= last["created_at"]
    assert (last["vector_store_id"], last["file_id"], last["position"]) == (store.id, file.id, None)


async def test_a_failed_job_says_why_is_listed_by_state_and_retried(
    gateway: Gateway, manual: Path, tmp_path: Path
) -> None:
    sdk, http = gateway.sdk(), gateway.http()
    await add_document(gateway, "others", manual)
    store = await sdk.vector_stores.create(name="manuals")
    file = await sdk.files.create(file=bad_file(tmp_path / "locked.pdf", manual), purpose="assistants")
    await sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
    (failed,) = (await http.get("/v1/jobs", params={"state": "failed"})).json()["data"]
    assert (failed["error"]["code"], failed["error"]["retryable"]) == ("password_required", False)
    assert len((await http.get("/v1/jobs")).json()["data"]) == 2
    assert len((await http.get("/v1/jobs", params={"vector_store_id": "manuals"})).json()["data"]) == 1

    retried = await http.post(f"/v1/jobs/{failed['id']}/retry", json={"password": "open sesame"})
    assert (retried.status_code, retried.json()["error"]) == (200, None)
    done = await sdk.vector_stores.files.poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
    assert done.status == "completed"
    for act in ("retry", "cancel"):
        refused = await http.post(f"/v1/jobs/{failed['id']}/{act}", json={})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_state")


async def test_the_command_line_lists_shows_and_retries_jobs(gateway: Gateway, manual: Path, tmp_path: Path) -> None:
    sdk = gateway.sdk()
    store = await sdk.vector_stores.create(name="manuals")
    file = await sdk.files.create(file=bad_file(tmp_path / "locked.pdf", manual), purpose="assistants")
    failed = await sdk.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
    job = (failed.model_extra or {})["job_id"]
    variables = {**client_environment(tmp_path, 1), "READAHEAD_URL": gateway.url, "READAHEAD_API_KEY": gateway.key}

    async def command(*arguments: str) -> tuple[int, str]:
        run = await asyncio.to_thread(readahead, "jobs", *arguments, environment=variables)
        return run.returncode, run.stdout

    code, listed = await command("list", "--state", "failed", "--json")
    assert (code, [one["id"] for one in json.loads(listed)["jobs"]]) == (0, [job])
    heads, row = (await command("list"))[1].splitlines()[:2]
    assert "KNOWLEDGE BASE" in heads and row.split()[:3] == [job, "manuals", "locked.pdf"]
    assert "password_required" in (await command("show", job))[1]
    code, retried = await command("retry", job, "--password", "open sesame", "--json")
    assert (code, json.loads(retried)["job"]["error"]) == (0, None)
    await sdk.vector_stores.files.poll(file.id, vector_store_id=store.id, poll_interval_ms=50)
    code, refused = await command("cancel", job, "--json")
    assert (code, json.loads(refused)["error"]["code"]) == (1, "invalid_state")


async def test_a_chunk_is_shown_disabled_and_enabled(gateway: Gateway, ids: dict[str, str]) -> None:
    http, sdk = gateway.http(), gateway.sdk()
    path = f"/v1/documents/{ids['document']}/chunks"
    chunks = (await http.get(path, params={"order": "asc"})).json()["data"]
    (oil,) = [chunk for chunk in chunks if "600 hours" in chunk["text"]]
    assert (oil["page"], oil["disabled"]) == (2, False)
    assert oil["boxes"]
    for line in oil["boxes"]:
        assert line["page"] == 2
        x0, y0, x1, y1 = line["box"]
        assert 0 < x0 < x1 < 1 and 0 < y0 < y1 < 1
    disabled = await http.post(f"{path}/{oil['id']}", json={"disabled": True})
    assert disabled.json() == {**oil, "disabled": True}
    found = await sdk.vector_stores.search(ids["store"], query="oil of the gearbox")
    assert found.data
    assert oil["id"] not in {(item.model_extra or {})["chunk_id"] for item in found.data}
    assert all((item.model_extra or {})["boxes"] for item in found.data)
    assert (await http.post(f"{path}/{oil['id']}", json={"disabled": False})).json() == oil
    assert (await http.get(f"{path}/{2**70}")).status_code == 400


async def test_a_retrieval_test_shows_each_engines_ranks_and_what_is_left_out(
    gateway: Gateway, ids: dict[str, str]
) -> None:
    body = {"query": "oil of the gearbox", "max_num_results": 5, "per_document": 1}
    answer = await gateway.http().post(f"/v1/vector_stores/{ids['store']}/retrieval_test", json=body)
    first, *others = answer.json()["data"]
    assert (first["rank"], first["page"], first["returned"], first["dropped"]) == (1, 2, True, None)
    assert (first["dense"]["rank"], first["lexical"]["rank"]) == (1, 1)
    assert first["dense"]["similarity"] > 0
    assert first["lexical"]["score"] > 0
    assert others
    assert all(other["dropped"] and not other["returned"] for other in others)
    assert [one["rank"] for one in (first, *others)] == list(range(1, len(others) + 2))
    assert {line["page"] for line in first["boxes"]} == {2}


@pytest.mark.parametrize(
    ("within", "found"),
    [
        ({"filters": {"type": "eq", "key": "year", "value": 2026}}, True),
        ({"filters": {"type": "eq", "key": "year", "value": 1999}}, False),
        ({"document_ids": ["doc_of_nobody"]}, False),
    ],
)
async def test_a_retrieval_test_looks_where_a_search_would(
    gateway: Gateway, ids: dict[str, str], within: dict[str, Any], found: bool
) -> None:
    await gateway.context.library.set_attributes("acme", ids["store"], ids["file"], {"year": 2026.0})
    body = {"query": "oil of the gearbox", **within}
    answer = await gateway.http().post(f"/v1/vector_stores/{ids['store']}/retrieval_test", json=body)
    assert bool(answer.json()["data"]) == found


async def test_a_page_of_a_deleted_document_is_gone_and_says_so(gateway: Gateway, ids: dict[str, str]) -> None:
    link = gateway.context.page_links.url("acme", ids["document"], 2)
    foreign = f"/v1/documents/{ids['document']}/pages/2.png"
    nobody, other = gateway.http(""), gateway.http(gateway.other_key)
    assert (await nobody.get(link)).status_code == 200
    await gateway.sdk().vector_stores.files.delete(ids["file"], vector_store_id=ids["store"])
    gone = await nobody.get(link)
    assert (gone.status_code, gone.json()["error"]["code"]) == (410, "document_deleted")
    assert "manual.pdf" in gone.json()["error"]["message"]
    assert (await other.get(foreign)).status_code == 404


@pytest.mark.parametrize("number", ["0", "-1", str(10**30)])
async def test_a_page_number_that_no_file_has_is_refused(gateway: Gateway, ids: dict[str, str], number: str) -> None:
    response = await gateway.http().get(f"/v1/documents/{ids['document']}/pages/{number}.png")
    assert (response.status_code, response.json()["error"]["param"]) == (400, "number")
