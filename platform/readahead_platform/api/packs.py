"""/v1/packs, which the LLM server keeps by tenant, and the pack of a knowledge base."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from readahead_platform.api.passed_through import JsonBody, response_of
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_platform.packs.builder import Keeping
from readahead_platform.packs.pack_size import unless_too_large

router = APIRouter()


class KbPackRequest(BaseModel):
    """How a knowledge base's pack is kept."""

    model_config = ConfigDict(extra="forbid")

    document: str | None = Field(default=None, min_length=1)
    """Only this document, by its id: for a knowledge base that is too large to be read whole."""
    pin: bool = False
    ttl: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    dry_run: bool = False


@router.post("/v1/packs", response_model=None)
async def create(tenant: Tenant, context: Context, body: JsonBody) -> Response:
    return await _passed(context, tenant, "POST", "/v1/packs", body)


@router.get("/v1/packs", response_model=None)
async def list_packs(tenant: Tenant, context: Context) -> Response:
    return await _passed(context, tenant, "GET", "/v1/packs")


@router.get("/v1/packs/{pack}", response_model=None)
async def get(pack: str, tenant: Tenant, context: Context) -> Response:
    return await _passed(context, tenant, "GET", f"/v1/packs/{_id(pack)}")


@router.delete("/v1/packs/{pack}", response_model=None)
async def delete(pack: str, tenant: Tenant, context: Context) -> Response:
    path = f"/v1/packs/{_id(pack)}"
    await context.packs.give_up(tenant, pack)
    return await _passed(context, tenant, "DELETE", path)


@router.patch("/v1/packs/{pack}", response_model=None)
async def patch(pack: str, tenant: Tenant, context: Context, body: JsonBody) -> Response:
    return await _passed(context, tenant, "PATCH", f"/v1/packs/{_id(pack)}", body)


@router.post("/v1/packs/{pack}/documents", response_model=None)
async def extend(pack: str, tenant: Tenant, context: Context, body: JsonBody) -> Response:
    return await _passed(context, tenant, "POST", f"/v1/packs/{_id(pack)}/documents", body)


@router.get("/v1/packs/{pack}/messages", response_model=None)
async def messages(pack: str, tenant: Tenant, context: Context) -> Response:
    await context.packs.forget_deleted(tenant)  # what the upkeep has not come to yet
    return await _passed(context, tenant, "GET", f"/v1/packs/{_id(pack)}/messages")


@router.post("/v1/vector_stores/{store}/pack", response_model=None)
async def pack_store(store: str, tenant: Tenant, context: Context, body: KbPackRequest) -> Response:
    """Builds the pack of a knowledge base or of one of its documents, or tells with `dry_run` what it would cost."""
    kb = await context.library.get_kb(tenant, store)
    keeping = Keeping(body.pin, body.ttl, body.dry_run)
    if body.document is not None:
        answer = await context.packs.build_document(tenant, kb, body.document, keeping)
    else:
        answer = await context.packs.build(tenant, kb, keeping)
    return response_of(unless_too_large(answer, kb.name, of_document=body.document is not None))


@router.get("/v1/vector_stores/{store}/pack")
async def get_store_pack(store: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    kb = await context.library.get_kb(tenant, store)
    shown = (await context.packs.find(tenant, kb)).shown()
    if shown is None:
        raise ApiError(404, f"{kb.name} has no pack.", param="vector_store", code="pack_not_found")
    return dict(shown)


@router.delete("/v1/vector_stores/{store}/pack")
async def delete_store_pack(store: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    kb = await context.library.get_kb(tenant, store)
    await context.packs.delete(tenant, kb)
    return {"id": kb.id, "object": "vector_store.pack.deleted", "deleted": True}


def _id(pack: str) -> str:
    """Part of a path at the LLM server, so nothing but a pack's id may stand there."""
    if not pack.removeprefix("pack_").isalnum():
        raise ApiError(404, f"There is no pack {pack!r}.", param="pack", code="pack_not_found")
    return pack


async def _passed(
    context: GatewayContext, tenant: str, method: str, path: str, body: dict[str, Any] | None = None
) -> Response:
    return response_of(await context.llm.request(method, path, body, tenant=tenant))
