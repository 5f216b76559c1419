"""/v1/files: uploaded bytes, as OpenAI keeps them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Form, UploadFile
from starlette.responses import FileResponse

from readahead_platform.api.listing import Paging, list_page
from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import StoredFile

router = APIRouter()
_PURPOSES = {"assistants", "user_data"}
_PART_BYTES = 1 << 20


@router.post("/v1/files")
async def upload(
    tenant: Tenant, context: Context, file: UploadFile, purpose: Annotated[str, Form()] = "assistants"
) -> dict[str, Any]:
    """Takes a file. The form parser spools it to disk, and from there it goes to the library part by part."""
    if purpose not in _PURPOSES:
        known = ", ".join(sorted(_PURPOSES))
        raise ApiError(400, f"The purpose {purpose!r} is not known; use one of {known}.", param="purpose")
    if not file.filename:
        raise ApiError(400, "The file has no name.", param="file", code="invalid_value")
    return file_object(await context.library.files.save(tenant, file.filename, _parts(file), purpose))


@router.get("/v1/files")
async def list_files(tenant: Tenant, context: Context, paging: Paging, purpose: str | None = None) -> dict[str, Any]:
    files = await context.library.files.list(tenant)
    return list_page([file_object(f) for f in files if purpose in {None, f.purpose}], paging)


@router.get("/v1/files/{file_id}")
async def get_file(file_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return file_object(await context.library.files.get(tenant, file_id))


@router.get("/v1/files/{file_id}/content")
async def get_content(file_id: str, tenant: Tenant, context: Context) -> FileResponse:
    """The bytes as they came; always a download, so that no browser runs what somebody uploaded."""
    file = await context.library.files.get(tenant, file_id)
    path = await context.library.files.path(tenant, file_id)
    return FileResponse(path, media_type="application/octet-stream", filename=file.name)


@router.delete("/v1/files/{file_id}")
async def delete_file(file_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    await context.library.files.delete(tenant, file_id)
    return {"id": file_id, "object": "file", "deleted": True}


async def _parts(file: UploadFile) -> AsyncIterator[bytes]:
    while part := await file.read(_PART_BYTES):
        yield part


def file_object(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at.timestamp()),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "sha256": file.sha256,
    }
