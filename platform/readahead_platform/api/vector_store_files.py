"""/v1/vector_stores/{store}/files: documents of a knowledge base and how far each has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from readahead_platform.api.listing import Cursor, Paging, list_page
from readahead_platform.api.vector_store_fields import Attributes, FileRequest, new_file
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval import job_desk
from readahead_retrieval.types import Attachment, Document, DocumentState

router = APIRouter()
StatusFilter = Annotated[Literal["in_progress", "completed", "failed", "cancelled"] | None, Query(alias="filter")]
"""Of a list of files."""

_STATUS = {
    DocumentState.SEARCHABLE: "completed",
    DocumentState.FAILED: "failed",
    DocumentState.CANCELLED: "cancelled",
}
_UNSUPPORTED = {"not_pdf", "unsupported_encryption", "needs_ocr", "too_large"}
_OUR_FAULT = {"internal", "timed_out", "interrupted", "embedder_unavailable", "disk_full"}


class AttributesUpdate(BaseModel):
    """Replaces all of them; null takes them away."""

    model_config = ConfigDict(extra="ignore")

    attributes: Attributes | None


@router.post("/v1/vector_stores/{store}/files")
async def add_file(store: str, body: FileRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Queues a file; the same file again is the same document."""
    return file_object(await context.library.attach(tenant, store, new_file(body)))


@router.get("/v1/vector_stores/{store}/files")
async def list_files(
    store: str, tenant: Tenant, context: Context, paging: Paging, status: StatusFilter = None
) -> dict[str, Any]:
    return files_page(await context.library.attachments(tenant, store), paging, status)


@router.get("/v1/vector_stores/{store}/files/{file_id}")
async def get_file(store: str, file_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return file_object(await context.library.attachment(tenant, store, file_id))


@router.post("/v1/vector_stores/{store}/files/{file_id}")
async def set_attributes(
    store: str, file_id: str, body: AttributesUpdate, tenant: Tenant, context: Context
) -> dict[str, Any]:
    return file_object(await context.library.set_attributes(tenant, store, file_id, body.attributes or {}))


@router.get("/v1/vector_stores/{store}/files/{file_id}/content")
async def get_content(store: str, file_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    """The text that was read, page by page."""
    attachment = await context.library.attachment(tenant, store, file_id)
    pages = await context.library.texts.pages(tenant, attachment.document.id)
    return {
        "object": "vector_store.file_content.page",
        "file_id": file_id,
        "filename": attachment.name,
        "attributes": dict(attachment.attributes),
        "data": [{"type": "text", "text": page.text, "page": page.number, "page_label": page.label} for page in pages],
        "has_more": False,
        "next_page": None,
    }


@router.delete("/v1/vector_stores/{store}/files/{file_id}")
async def remove_file(store: str, file_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Takes the file out of the knowledge base; the file itself stays."""
    await context.library.detach(tenant, store, file_id)
    return {"id": file_id, "object": "vector_store.file.deleted", "deleted": True}


def files_page(attachments: Sequence[Attachment], paging: Cursor, status: str | None) -> dict[str, Any]:
    objects = [file_object(attachment) for attachment in attachments]
    return list_page([one for one in objects if status in {None, one["status"]}], paging)


def file_object(attachment: Attachment) -> dict[str, Any]:
    """OpenAI's shape, then our fields."""
    document = attachment.document
    return {
        "id": attachment.file_id,
        "object": "vector_store.file",
        "created_at": int(attachment.created_at.timestamp()),
        "vector_store_id": attachment.kb_id,
        "status": _STATUS.get(document.state, "in_progress"),
        "last_error": _last_error(document),
        "usage_bytes": attachment.bytes,
        "attributes": dict(attachment.attributes),
        "chunking_strategy": _chunking_strategy(document),
        "document": attachment.name,
        "job_id": job_desk.id_of(document.id),
        **progress(document),
    }


def progress(document: Document) -> dict[str, Any]:
    """How far a document has come, in our own words."""
    return {
        "document_id": document.id,
        "state": document.state.value,
        "pages": document.pages,
        "pages_done": document.pages_done,
        "pages_unread": list(document.pages_unread),
        "notes": list(document.notes),
        "chunks": document.chunks,
        "chunks_done": document.chunks_done,
        "outdated": document.outdated,
        "error": None
        if document.error_code is None
        else {
            "code": document.error_code,
            "message": document.error_message,
            "retryable": document.error_retryable,
        },
    }


def _chunking_strategy(document: Document) -> dict[str, Any]:
    """As it was asked for; `other` is OpenAI's word for what it does not know, here the settings' sizes."""
    if document.chunk_tokens is None:
        return {"type": "other"}
    static = {
        "max_chunk_size_tokens": document.chunk_tokens,
        "chunk_overlap_tokens": document.chunk_overlap_tokens,
    }
    return {"type": "static", "static": static}


def _last_error(document: Document) -> dict[str, str] | None:
    """OpenAI knows three codes; ours stands in `error`."""
    if document.error_code is None:
        return None
    code = "invalid_file"
    if document.error_code in _UNSUPPORTED:
        code = "unsupported_file"
    elif document.error_code in _OUR_FAULT:
        code = "server_error"
    return {"code": code, "message": document.error_message or document.error_code}
