"""/v1/documents/{document}/chunks: the passages that a document was cut into, ours."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict

from readahead_platform.api.lines import line_objects
from readahead_platform.api.listing import Paging, list_page
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import ChunkView

router = APIRouter()
ChunkId = Annotated[int, Path(ge=1, le=2**63 - 1)]


class ChunkUpdate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    disabled: bool


@router.get("/v1/documents/{document_id}/chunks")
async def list_chunks(document_id: str, tenant: Tenant, context: Context, paging: Paging) -> dict[str, Any]:
    page = list_page([_chunk(chunk) for chunk in await context.library.chunks.list(tenant, document_id)], paging)
    lines = await context.library.chunks.lines(tenant, [int(chunk["id"]) for chunk in page["data"]])
    return page | {"data": [chunk | {"boxes": line_objects(lines.get(int(chunk["id"]), ()))} for chunk in page["data"]]}


@router.get("/v1/documents/{document_id}/chunks/{chunk_id}")
async def get_chunk(document_id: str, chunk_id: ChunkId, tenant: Tenant, context: Context) -> dict[str, Any]:
    return await _placed(await context.library.chunks.get(tenant, document_id, chunk_id), tenant, context)


@router.post("/v1/documents/{document_id}/chunks/{chunk_id}")
async def update_chunk(
    document_id: str, chunk_id: ChunkId, body: ChunkUpdate, tenant: Tenant, context: Context
) -> dict[str, Any]:
    """A disabled chunk is found by no search and stands in no pack, from this moment on."""
    changed = await context.library.chunks.set_disabled(tenant, document_id, chunk_id, disabled=body.disabled)
    return await _placed(changed, tenant, context)


async def _placed(chunk: ChunkView, tenant: str, context: GatewayContext) -> dict[str, Any]:
    """With the lines in which it stands."""
    lines = await context.library.chunks.lines(tenant, [chunk.id])
    return _chunk(chunk) | {"boxes": line_objects(lines.get(chunk.id, ()))}


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
