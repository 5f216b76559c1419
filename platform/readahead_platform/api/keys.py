"""/v1/keys: our own resource for API keys. The first key of an installation may make keys for any tenant."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Key, require_scope
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.scopes import SCOPES, Scope
from readahead_platform.gateway.tenants import ApiKey

router = APIRouter()


class KeyRequest(BaseModel):
    """Whose key, and what it is for."""

    model_config = ConfigDict(extra="forbid")

    tenant: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    label: str = Field(default="", max_length=200)
    scopes: list[Scope] = Field(default=list(SCOPES), min_length=1, max_length=len(SCOPES))


@router.post("/v1/keys")
async def create_key(body: KeyRequest, key: Key, context: Context) -> dict[str, Any]:
    """The only answer that ever holds the key itself."""
    tenant = body.tenant or key.tenant
    if tenant != key.tenant and not key.admin:
        raise ApiError(403, "Only an admin key may make keys for another tenant.", param="tenant", code="not_admin")
    for scope in body.scopes:
        require_scope(key, scope)  # nobody gives what they have not
    secret, record = await context.tenants.create_key(tenant, body.label, scopes=body.scopes)
    return {**_key_object(record), "key": secret}


@router.get("/v1/keys")
async def list_keys(key: Key, context: Context) -> dict[str, Any]:
    records = await context.tenants.list_keys(_scope(key))
    return {"object": "list", "data": [_key_object(record) for record in records]}


@router.delete("/v1/keys/{key_id}")
async def revoke_key(key_id: str, key: Key, context: Context) -> dict[str, Any]:
    """An admin key only by another: whoever else could would shut the operator out."""
    keys = await context.tenants.list_keys(_scope(key))
    if not key.admin and any(each.id == key_id and each.admin for each in keys):
        raise ApiError(403, "Only an admin key may revoke an admin key.", param="key_id", code="not_admin")
    return _key_object(await context.tenants.revoke_key(key_id, _scope(key)))


def _scope(key: ApiKey) -> str | None:
    return None if key.admin else key.tenant


def _key_object(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "object": "api_key",
        "tenant": key.tenant,
        "label": key.label,
        "hint": f"…{key.hint}",
        "admin": key.admin,
        "scopes": list(key.scopes),
        "created_at": int(key.created_at.timestamp()),
        "revoked": key.revoked,
    }
