"""/v1/jobs: the making of documents, ours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, SecretStr
from starlette.responses import StreamingResponse

from readahead_platform.api.listing import Paging, list_page
from readahead_platform.api.vector_store_files import progress
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.sse import DONE, event_stream, frame
from readahead_retrieval.types import DocumentState, Job

router = APIRouter()


class RetryRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    password: SecretStr | None = None


@router.get("/v1/jobs")
async def list_jobs(
    tenant: Tenant,
    context: Context,
    paging: Paging,
    state: DocumentState | None = None,
    vector_store_id: Annotated[str | None, Query(max_length=255)] = None,
) -> dict[str, Any]:
    """Every document's job, of all knowledge bases or of one."""
    kb_id = None if vector_store_id is None else (await context.library.get_kb(tenant, vector_store_id)).id
    jobs = await context.library.jobs.list(tenant)
    kept = [job for job in jobs if state in {None, job.document.state} and kb_id in {None, job.document.kb_id}]
    return list_page([job_object(job) for job in kept], paging)


@router.get("/v1/jobs/{job_id}")
async def get_job(job_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return job_object(await context.library.jobs.get(tenant, job_id))


@router.post("/v1/jobs/{job_id}/cancel")
async def cancel(job_id: str, tenant: Tenant, context: Context) -> dict[str, Any]:
    return job_object(await context.library.jobs.cancel(tenant, job_id))


@router.post("/v1/jobs/{job_id}/retry")
async def retry(job_id: str, tenant: Tenant, context: Context, body: RetryRequest | None = None) -> dict[str, Any]:
    """What was done already is kept, unless the file itself was at fault."""
    password = body.password.get_secret_value() if body and body.password else None
    return job_object(await context.library.jobs.retry(tenant, job_id, password))


@router.get("/v1/jobs/{job_id}/events", response_model=None)
async def events(job_id: str, tenant: Tenant, context: Context) -> StreamingResponse:
    """The job now and at each change, until it is finished."""

    async def frames() -> AsyncIterator[bytes]:
        async for job in context.library.jobs.watch(tenant, job_id):
            yield frame(job_object(job))
        yield DONE

    return await event_stream(frames(), context.drain, context.settings.gateway.heartbeat_s)


def job_object(job: Job) -> dict[str, Any]:
    """How far a document, or its new reading, has come."""
    document = job.document
    started, finished = document.started_at, document.finished_at
    return {
        "id": job.id,
        "object": "job",
        "created_at": int(document.created_at.timestamp()),
        "started_at": None if started is None else int(started.timestamp()),
        "finished_at": None if finished is None else int(finished.timestamp()),
        "vector_store_id": document.kb_id,
        "file_id": document.file_id,
        "document": document.name,
        "position": job.position,
        **progress(document),
    }
