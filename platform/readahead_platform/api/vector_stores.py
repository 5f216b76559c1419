"""/v1/vector_stores: knowledge bases, as OpenAI calls them. An id or a name is taken wherever OpenAI takes an id."""

from __future__ import annotations

import contextlib
import secrets
from collections import Counter
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from readahead_platform.api.listing import Paging, list_page
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import DocumentState, KnowledgeBase

router = APIRouter()


class VectorStoreRequest(BaseModel):
    """OpenAI's other fields (chunking_strategy, expires_after, metadata) are accepted and have no effect."""

    model_config = ConfigDict(extra="ignore")

    name: str | None = None
    file_ids: list[str] = Field(default_factory=list, max_length=500)


@router.post("/v1/vector_stores")
async def create(body: VectorStoreRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Makes a knowledge base; its files are checked first, so that a wrong id leaves nothing half made."""
    for file_id in body.file_ids:
        await context.library.get_file(tenant, file_id)
    kb = await context.library.create_kb(tenant, body.name or f"store-{secrets.token_hex(4)}")
    for file_id in body.file_ids:
        await context.library.add_document(tenant, kb.id, file_id)
    return await _one(tenant, context, kb.id)


@router.get("/v1/vector_stores")
async def list_stores(tenant: Tenant, context: Context, paging: Paging) -> dict[str, Any]:
    kbs = await context.library.list_kbs(tenant)
    return list_page([await _store_object(tenant, context, kb) for kb in kbs], paging)


@router.get("/v1/vector_stores/{store}")
async def get_store(store: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return await _one(tenant, context, store)


@router.delete("/v1/vector_stores/{store}")
async def delete_store(store: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    kb = await context.library.get_kb(tenant, store)
    await context.library.delete_kb(tenant, kb.id)
    with contextlib.suppress(ApiError):  # the LLM server is away: the next deletion, or a new pack, does it
        await context.packs.forget_deleted(tenant)
    return {"id": kb.id, "object": "vector_store.deleted", "deleted": True}


async def _one(tenant: str, context: GatewayContext, store: str) -> dict[str, Any]:
    return await _store_object(tenant, context, await context.library.get_kb(tenant, store))


async def _store_object(tenant: str, context: GatewayContext, kb: KnowledgeBase) -> dict[str, Any]:
    states = Counter(document.state for document in await context.library.list_documents(tenant, kb.id))
    counts = {
        "completed": states[DocumentState.SEARCHABLE],
        "failed": states[DocumentState.FAILED],
        "cancelled": states[DocumentState.CANCELLED],
        "total": states.total(),
    }
    counts["in_progress"] = 2 * counts["total"] - sum(counts.values())
    created = int(kb.created_at.timestamp())
    return {
        "id": kb.id,
        "object": "vector_store",
        "created_at": created,
        "last_active_at": created,
        "name": kb.name,
        "model": f"kb/{kb.name}",
        "status": "in_progress" if counts["in_progress"] else "completed",
        "usage_bytes": kb.bytes,
        "file_counts": counts,
        "metadata": {},
    }
