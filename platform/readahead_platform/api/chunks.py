"""/v1/documents/{document}/chunks: the passages that a document was cut into, ours."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict

from readahead_platform.api.listing import Paging, list_page
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import ChunkView

router = APIRouter()
ChunkId = Annotated[int, Path(ge=1, le=2**63 - 1)]


class ChunkUpdate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    disabled: bool


@router.get("/v1/documents/{document_id}/chunks")
async def list_chunks(document_id: str, tenant: Tenant, context: Context, paging: Paging) -> dict[str, Any]:
    return list_page([_chunk(chunk) for chunk in await context.library.chunks.list(tenant, document_id)], paging)


@router.get("/v1/documents/{document_id}/chunks/{chunk_id}")
async def get_chunk(document_id: str, chunk_id: ChunkId, tenant: Tenant, context: Context) -> dict[str, Any]:
    return _chunk(await context.library.chunks.get(tenant, document_id, chunk_id))


@router.post("/v1/documents/{document_id}/chunks/{chunk_id}")
async def update_chunk(
    document_id: str, chunk_id: ChunkId, body: ChunkUpdate, tenant: Tenant, context: Context
) -> dict[str, Any]:
    """A disabled chunk is found by no search and stands in no pack, from this moment on."""
    changed = await context.library.chunks.set_disabled(tenant, document_id, chunk_id, disabled=body.disabled)
    return _chunk(changed)


def _chunk(chunk: ChunkView) -> dict[str, Any]:
    return {
        "id": str(chunk.id),
        "object": "document.chunk",
        "document_id": chunk.document_id,
        "ordinal": chunk.ordinal,
        "text": chunk.text,
        "heading": chunk.heading,
        "page": chunk.first_page,
        "last_page": chunk.last_page,
        "disabled": chunk.disabled,
        "embedded": chunk.embedded,
    }
