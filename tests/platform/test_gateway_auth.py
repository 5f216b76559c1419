"""Who may come in."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import openai
import pytest

from readahead_platform.gateway.app import create_app
from readahead_platform.gateway.tenants import TenantStore
from readahead_platform.store.database import database_url, open_database
from tests.platform.gateway import Gateway

OPEN = {"/health/live", "/health/ready", "/metrics"}


def routes(gateway: Gateway) -> list[tuple[str, str]]:
    """Every method and path that the app answers, with ids filled in."""
    paths = create_app(gateway.context).openapi()["paths"]
    return [
        (method.upper(), re.sub(r"\{[^}]+\}", "x", path.replace("{number}", "1")))
        for path, methods in paths.items()
        for method in methods
    ]


async def test_every_route_but_health_and_metrics_needs_a_key(gateway: Gateway) -> None:
    without, wrong = gateway.http(""), gateway.http("sk-ra-wrong")
    checked = [(method, path) for method, path in routes(gateway) if path not in OPEN] + [("GET", "/v1/unknown")]
    assert len(checked) > 20
    for method, path in checked:
        for client, code in ((without, "missing_api_key"), (wrong, "invalid_api_key")):
            response = await client.request(method, path)
            assert response.status_code == 401, (method, path)
            assert response.json()["error"]["code"] == code
            assert response.headers["www-authenticate"] == "Bearer"


async def test_health_and_metrics_need_none(gateway: Gateway) -> None:
    without = gateway.http("")
    assert (await without.get("/health/live")).json() == {"status": "live"}
    ready = await without.get("/health/ready")
    assert ready.status_code == 503
    assert ready.json()["parts"] == {
        "gateway": "ready",
        "library": "ready",
        "database": "ready",
        "llm_server": "not_ready",
    }
    metrics = await without.get("/metrics")
    assert 'readahead_gateway_requests_total{method="GET",route="/health/ready",status="503"} 1.0' in metrics.text


async def test_the_sdk_raises_its_authentication_error(gateway: Gateway) -> None:
    with pytest.raises(openai.AuthenticationError) as raised:
        await gateway.sdk("sk-ra-wrong").models.list()
    assert raised.value.code == "invalid_api_key"


async def test_a_body_is_not_read_before_the_key_is_checked(gateway: Gateway) -> None:
    port = int(gateway.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/files HTTP/1.1\r\nHost: here\r\nContent-Length: 1000000\r\n\r\nonly a little")
    async with asyncio.timeout(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 401")
    writer.close()


async def test_a_revoked_key_is_out_at_once(gateway: Gateway) -> None:
    admin = gateway.http()
    made = (await admin.post("/v1/keys", json={"label": "for a script"})).json()
    script = gateway.http(made["key"])
    assert (await script.get("/v1/files")).status_code == 200
    assert (await admin.delete(f"/v1/keys/{made['id']}")).json()["revoked"] is True
    assert (await script.get("/v1/files")).status_code == 401


async def test_only_an_admin_key_makes_keys_for_another_tenant(gateway: Gateway) -> None:
    made = await gateway.http().post("/v1/keys", json={"tenant": "initech"})
    assert made.json()["tenant"] == "initech"
    refused = await gateway.http(gateway.other_key).post("/v1/keys", json={"tenant": "acme"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_admin")
    own = await gateway.http(gateway.other_key).post("/v1/keys", json={})
    assert own.json()["tenant"] == "globex"
    listed = (await gateway.http(gateway.other_key).get("/v1/keys")).json()["data"]
    assert {key["tenant"] for key in listed} == {"globex"}
    assert not any(key["admin"] for key in listed)


async def test_a_list_of_keys_holds_no_key(gateway: Gateway) -> None:
    text = (await gateway.http().get("/v1/keys")).text
    assert gateway.key not in text
    assert gateway.other_key not in text


async def test_first_keys_of_a_tenant_may_be_made_at_once(gateway: Gateway) -> None:
    tenants = gateway.context.tenants
    for tenant in ("hooli", "initech"):  # the second time over connections that are open
        made = await asyncio.gather(*(tenants.create_key(tenant) for _ in range(16)))
        assert len({key for key, _record in made}) == 16
        assert len(await tenants.list_keys(tenant)) == 16


async def test_a_home_may_have_a_name_that_means_something_in_a_url(tmp_path: Path) -> None:
    home = tmp_path / "50% off?#"
    home.mkdir()
    database = await open_database(database_url(home, ""))
    await TenantStore(database).create_key("acme")
    await database.close()
    assert "readahead.db" in names_in(home)
    assert names_in(tmp_path) == [home.name]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_a_dead_part_behind_the_library_turns_readiness_off_and_is_named(gateway: Gateway) -> None:
    worker = next(task for task in asyncio.all_tasks() if task.get_name() == "ingest 0")
    worker.cancel()
    await asyncio.wait([worker])
    ready = await gateway.http("").get("/health/ready")
    assert ready.status_code == 503
    assert ready.json()["parts"]["library"] == "not_ready: ingestion worker died; restart the service"


async def test_an_ordinary_key_neither_revokes_an_admins_nor_gives_what_it_has_not(gateway: Gateway) -> None:
    tenants = gateway.context.tenants
    ordinary, _ = await tenants.create_key("acme")
    writing, _ = await tenants.create_key("acme", scopes=["write"])
    admins = next(key for key in await tenants.list_keys("acme") if key.admin)
    refused = await gateway.http(ordinary).delete(f"/v1/keys/{admins.id}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_admin")
    assert (await gateway.http().get("/v1/keys")).status_code == 200
    refused = await gateway.http(writing).post("/v1/keys", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "insufficient_scope")
    assert (await gateway.http(writing).post("/v1/keys", json={"scopes": ["write"]})).status_code == 200
