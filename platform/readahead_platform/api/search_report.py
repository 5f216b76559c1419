"""/v1/vector_stores/{store}/retrieval_test: why a search finds what it finds, ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from readahead_platform.api.attribute_filters import Filter
from readahead_platform.api.lines import line_objects
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.boxes import Line
from readahead_retrieval.library import Library
from readahead_retrieval.search import Candidate

router = APIRouter()
MAX_DOCUMENTS = 1_000
"""That a caller names; a filter may let through any number."""


class RetrievalTestRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str
    max_num_results: int = Field(default=10, ge=1, le=50)
    per_document: int | None = Field(default=None, ge=1, le=50)
    filters: Filter | None = None
    document_ids: Annotated[list[str], Field(max_length=MAX_DOCUMENTS)] | None = None


@router.post("/v1/vector_stores/{store}/retrieval_test")
async def retrieval_test(store: str, body: RetrievalTestRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Every passage that such a search considers, in the order of the fused ranking, with its place in each engine."""
    within = await _within(store, body, tenant, context.library)
    considered = (
        []
        if within == []
        else await context.library.explain(tenant, store, body.query, body.max_num_results, within, body.per_document)
    )
    lines = await context.library.chunks.lines(tenant, [one.evidence.chunk_id for one in considered])
    return {
        "object": "vector_store.retrieval_test",
        "query": body.query,
        "data": [_candidate(candidate, lines.get(candidate.evidence.chunk_id, ())) for candidate in considered],
    }


async def _within(store: str, body: RetrievalTestRequest, tenant: str, library: Library) -> list[str] | None:
    """The documents that are searched; None for all."""
    if body.filters is None:
        return body.document_ids
    passing = await library.matching(tenant, store, body.filters.matches)
    return passing if body.document_ids is None else [one for one in body.document_ids if one in set(passing)]


def _candidate(candidate: Candidate, lines: Sequence[Line]) -> dict[str, Any]:
    evidence = candidate.evidence
    return {
        "rank": candidate.rank,
        "returned": candidate.dropped is None,
        "dropped": candidate.dropped,
        "fused_score": evidence.score,
        "dense": {"rank": evidence.ranks.get("dense"), "similarity": evidence.similarity},
        "lexical": {"rank": evidence.ranks.get("lexical"), "score": candidate.lexical_score},
        "document_id": evidence.document_id,
        "document": evidence.document,
        "chunk_id": str(evidence.chunk_id),
        "page": evidence.page,
        "last_page": evidence.last_page,
        "page_label": evidence.page_label,
        "boxes": line_objects(lines),
        "heading": evidence.heading,
        "text": evidence.text,
    }
