"""/v1/vector_stores/{store}/file_batches: many files in one go."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from readahead_platform.api.listing import Paging
from readahead_platform.api.vector_store_fields import (
    Attributes,
    ChunkingStrategy,
    FileRequest,
    file_counts,
    new_file,
)
from readahead_platform.api.vector_store_files import StatusFilter, files_page
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import FileBatch

router = APIRouter()
MAX_FILES = 2000


class FileBatchRequest(BaseModel):
    """`file_ids`, to all of which attributes and strategy apply, or `files`, each with its own."""

    model_config = ConfigDict(extra="ignore")

    file_ids: list[str] = Field(default_factory=list, max_length=MAX_FILES)
    files: list[FileRequest] = Field(default_factory=list, max_length=MAX_FILES)
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None
    password: SecretStr | None = None
    replace: bool = False

    @model_validator(mode="after")
    def _one_of_both(self) -> FileBatchRequest:
        if bool(self.file_ids) == bool(self.files):
            raise ValueError("give either file_ids or files, with at least one of them")
        return self

    def each(self) -> list[FileRequest]:
        common = {name: getattr(self, name) for name in ("attributes", "chunking_strategy", "password", "replace")}
        return self.files or [FileRequest(file_id=file_id, **common) for file_id in self.file_ids]


@router.post("/v1/vector_stores/{store}/file_batches")
async def create(store: str, body: FileBatchRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Queues them all, or none where an id is wrong."""
    return _batch(await context.library.batches.add(tenant, store, [new_file(one) for one in body.each()]))


@router.get("/v1/vector_stores/{store}/file_batches/{batch_id}")
async def get(store: str, batch_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return _batch(await context.library.batches.get(tenant, store, batch_id))


@router.post("/v1/vector_stores/{store}/file_batches/{batch_id}/cancel")
async def cancel(store: str, batch_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Stops what is not done; what is searchable stays."""
    return _batch(await context.library.batches.cancel(tenant, store, batch_id))


@router.get("/v1/vector_stores/{store}/file_batches/{batch_id}/files")
async def list_files(
    store: str, batch_id: str, tenant: Tenant, context: Context, paging: Paging, status: StatusFilter = None
) -> dict[str, Any]:
    return files_page(await context.library.batches.files(tenant, store, batch_id), paging, status)


def _batch(batch: FileBatch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "object": "vector_store.files_batch",
        "created_at": int(batch.created_at.timestamp()),
        "vector_store_id": batch.kb_id,
        "status": _status(batch),
        "file_counts": file_counts(batch.files),
    }


def _status(batch: FileBatch) -> str:
    """A batch some of whose files failed is completed: its counts tell."""
    if batch.files.in_progress:
        return "in_progress"
    if batch.cancelled:
        return "cancelled"
    return "failed" if batch.files.failed and batch.files.failed == batch.files.total else "completed"
