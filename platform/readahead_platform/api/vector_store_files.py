"""/v1/vector_stores/{store}/files: documents of a knowledge base and how far each has come."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, SecretStr

from readahead_platform.api.listing import Paging, list_page
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import Document, DocumentState

router = APIRouter()

_STATUS = {
    DocumentState.SEARCHABLE: "completed",
    DocumentState.FAILED: "failed",
    DocumentState.CANCELLED: "cancelled",
}
_UNSUPPORTED = {"not_pdf", "unsupported_encryption", "needs_ocr", "too_large"}
_OUR_FAULT = {"internal", "timed_out", "interrupted"}


class VectorStoreFileRequest(BaseModel):
    """`password` is ours; OpenAI's chunking_strategy and attributes are accepted and have no effect."""

    model_config = ConfigDict(extra="ignore")

    file_id: str
    password: SecretStr | None = None


@router.post("/v1/vector_stores/{store}/files")
async def add_file(store: str, body: VectorStoreFileRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Queues a file; the same file again is the same document."""
    password = body.password.get_secret_value() if body.password else None
    return document_object(await context.library.add_document(tenant, store, body.file_id, password))


@router.get("/v1/vector_stores/{store}/files")
async def list_documents(
    store: str,
    tenant: Tenant,
    context: Context,
    paging: Paging,
    filter: str | None = None,  # noqa: A002 - OpenAI's name
) -> dict[str, Any]:
    documents = [document_object(d) for d in await context.library.list_documents(tenant, store)]
    return list_page([d for d in documents if filter in {None, d["status"]}], paging)


@router.get("/v1/vector_stores/{store}/files/{file_id}")
async def get_document(store: str, file_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return document_object(await context.library.document_of_file(tenant, store, file_id))


@router.delete("/v1/vector_stores/{store}/files/{file_id}")
async def remove_document(store: str, file_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Takes the document out of the knowledge base; the file itself stays."""
    document = await context.library.document_of_file(tenant, store, file_id)
    await context.library.remove_document(tenant, document.id)
    return {"id": file_id, "object": "vector_store.file.deleted", "deleted": True}


def document_object(document: Document) -> dict[str, Any]:
    """OpenAI's shape, then our fields."""
    return {
        "id": document.file_id,
        "object": "vector_store.file",
        "created_at": int(document.created_at.timestamp()),
        "vector_store_id": document.kb_id,
        "status": _STATUS.get(document.state, "in_progress"),
        "last_error": _last_error(document),
        "usage_bytes": 0,
        "attributes": {},
        "document_id": document.id,
        "document": document.name,
        "state": document.state.value,
        "pages": document.pages,
        "pages_done": document.pages_done,
        "pages_unread": list(document.pages_unread),
        "chunks": document.chunks,
        "chunks_done": document.chunks_done,
        "error": None
        if document.error_code is None
        else {
            "code": document.error_code,
            "message": document.error_message,
            "retryable": document.error_retryable,
        },
    }


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
