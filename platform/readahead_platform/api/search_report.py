"""/v1/vector_stores/{store}/retrieval_test: why a search finds what it finds, ours."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.search import Candidate

router = APIRouter()


class RetrievalTestRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str
    max_num_results: int = Field(default=10, ge=1, le=50)
    per_document: int | None = Field(default=None, ge=1, le=50)


@router.post("/v1/vector_stores/{store}/retrieval_test")
async def retrieval_test(store: str, body: RetrievalTestRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    """Every passage that such a search considers, in the order of the fused ranking, with its place in each engine."""
    considered = await context.library.explain(
        tenant, store, body.query, body.max_num_results, per_document=body.per_document
    )
    return {
        "object": "vector_store.retrieval_test",
        "query": body.query,
        "data": [_candidate(candidate) for candidate in considered],
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
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
        "heading": evidence.heading,
        "text": evidence.text,
    }
