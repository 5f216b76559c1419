"""Keys and tenants, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from readahead_platform.gateway.tenants import TenantStore
from readahead_platform.store.database import open_database


@pytest.fixture
async def tenants(database_url: str) -> AsyncIterator[TenantStore]:
    database = await open_database(database_url)
    yield TenantStore(database)
    await database.close()


async def test_a_key_works_until_it_is_revoked(tenants: TenantStore) -> None:
    key, record = await tenants.create_key("acme", "script", scopes=("read",))
    known = await tenants.authenticate(key)
    assert known == record
    assert (record.tenant, record.scopes, record.admin) == ("acme", ("read",), False)
    await tenants.revoke_key(record.id, "acme")
    assert await tenants.authenticate(key) is None
    assert [one.revoked for one in await tenants.list_keys("acme")] == [True]


async def test_the_first_keys_of_a_tenant_may_be_made_at_once(tenants: TenantStore) -> None:
    made = await asyncio.gather(*(tenants.create_key("acme") for _ in range(5)))
    assert len({key for key, _ in made}) == 5
    assert len(await tenants.list_keys("acme")) == 5
    assert await tenants.list_keys("globex") == []
