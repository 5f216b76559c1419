"""/v1/vector_stores: knowledge bases, as OpenAI calls them. An id or a name is taken wherever OpenAI takes an id."""

from __future__ import annotations

import secrets
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from readahead_platform.api.jobs import job_object
from readahead_platform.api.listing import Paging, list_page
from readahead_platform.api.models import model_name
from readahead_platform.api.vector_store_fields import (
    ChunkingStrategy,
    ExpiresAfter,
    FileRequest,
    Metadata,
    file_counts,
    new_file,
)
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import KnowledgeBase

router = APIRouter()


class VectorStoreRequest(BaseModel):
    """OpenAI's `description` is accepted and has no effect."""

    model_config = ConfigDict(extra="ignore")

    name: str | None = None
    file_ids: list[str] = Field(default_factory=list, max_length=500)
    chunking_strategy: ChunkingStrategy | None = None
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None


class VectorStoreUpdate(BaseModel):
    """What is absent stays; a null takes the expiry or the metadata away."""

    model_config = ConfigDict(extra="ignore")

    name: str | None = None
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None


class RefreshRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    all: bool = False


@router.post("/v1/vector_stores")
async def create(body: VectorStoreRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Makes a knowledge base; its files are checked first, so that a wrong id leaves nothing half made."""
    for file_id in body.file_ids:
        await context.library.files.get(tenant, file_id)
    kb = await context.library.create_kb(
        tenant,
        body.name or f"store-{secrets.token_hex(4)}",
        allow_same_name=True,
        metadata=body.metadata,
        expires_after_days=body.expires_after.days if body.expires_after else None,
    )
    for file_id in body.file_ids:
        request = FileRequest(file_id=file_id, chunking_strategy=body.chunking_strategy)
        await context.library.attach(tenant, kb.id, new_file(request))
    return store_object(await context.library.get_kb(tenant, kb.id))


@router.post("/v1/vector_stores/{store}")
async def update(store: str, body: VectorStoreUpdate, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Also is how an expired store comes back: it counts as a use."""
    values: dict[str, Any] = {}
    if body.name is not None:
        values["name"] = body.name
    if "metadata" in body.model_fields_set:
        values["metadata"] = body.metadata or {}
    if "expires_after" in body.model_fields_set:
        values["expires_after_days"] = body.expires_after.days if body.expires_after else None
    return store_object(await context.library.update_kb(tenant, store, values))


@router.post("/v1/vector_stores/{store}/refresh")
async def refresh(store: str, tenant: Tenant, context: Context, body: RefreshRequest | None = None) -> dict[str, Any]:
    """Has documents that an older version read be read anew; ours. Returns their jobs."""
    everything = body is not None and body.all
    jobs = await context.library.jobs.refresh(tenant, store, everything=everything)
    return {"object": "list", "data": [job_object(job) for job in jobs]}


@router.get("/v1/vector_stores")
async def list_stores(tenant: Tenant, context: Context, paging: Paging) -> dict[str, Any]:
    return list_page([store_object(kb) for kb in await context.library.list_kbs(tenant)], paging)


@router.get("/v1/vector_stores/{store}")
async def get_store(store: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return store_object(await context.library.get_kb(tenant, store))


@router.delete("/v1/vector_stores/{store}")
async def delete_store(store: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    kb = await context.library.get_kb(tenant, store)
    await context.library.delete_kb(tenant, kb.id)
    return {"id": kb.id, "object": "vector_store.deleted", "deleted": True}


def store_object(kb: KnowledgeBase) -> dict[str, Any]:
    """OpenAI's shape, and the model's name to chat with it."""
    expires = kb.expires_at
    return {
        "id": kb.id,
        "object": "vector_store",
        "created_at": int(kb.created_at.timestamp()),
        "last_active_at": int(kb.last_active_at.timestamp()),
        "name": kb.name,
        "model": model_name(kb),
        "status": _status(kb),
        "usage_bytes": kb.bytes,
        "file_counts": file_counts(kb.files),
        "metadata": dict(kb.metadata),
        "expires_after": None
        if kb.expires_after_days is None
        else {"anchor": "last_active_at", "days": kb.expires_after_days},
        "expires_at": None if expires is None else int(expires.timestamp()),
    }


def _status(kb: KnowledgeBase) -> str:
    if kb.expired:
        return "expired"
    return "in_progress" if kb.files.in_progress else "completed"
