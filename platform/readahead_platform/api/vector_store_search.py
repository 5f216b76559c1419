"""/v1/vector_stores/{store}/search: passages for a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from readahead_platform.errors import ApiError
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.gateway.dependencies import Context
from readahead_retrieval.types import Evidence

router = APIRouter()


class RankingOptions(BaseModel):
    """OpenAI's; the ranker is ours whatever its name says."""

    model_config = ConfigDict(extra="ignore")

    score_threshold: float | None = None


class SearchRequest(BaseModel):
    """OpenAI's body; filters are refused rather than ignored, for ignoring them would return too much."""

    model_config = ConfigDict(extra="ignore")

    query: str | list[str]
    max_num_results: int = Field(default=10, ge=1, le=50)
    filters: dict[str, Any] | None = None
    ranking_options: RankingOptions = RankingOptions()


@router.post("/v1/vector_stores/{store}/search")
async def search(store: str, body: SearchRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    if body.filters is not None:
        raise ApiError(400, "Filters by attributes are not supported.", param="filters", code="unsupported_value")
    queries = [body.query] if isinstance(body.query, str) else body.query
    found = await context.library.search(tenant, store, "\n".join(queries), body.max_num_results)
    floor = body.ranking_options.score_threshold
    kept = [passage for passage in found if floor is None or passage.score >= floor]
    file_ids = await _file_ids(tenant, context, kept)
    return {
        "object": "vector_store.search_results.page",
        "search_query": queries,
        "data": [_result(passage, file_ids[passage.document_id]) for passage in kept],
        "has_more": False,
        "next_page": None,
    }


async def _file_ids(tenant: str, context: GatewayContext, found: Sequence[Evidence]) -> dict[str, str]:
    documents = {passage.document_id for passage in found}
    return {id_: (await context.library.get_document(tenant, id_)).file_id for id_ in documents}


def _result(passage: Evidence, file_id: str) -> dict[str, Any]:
    return {
        "file_id": file_id,
        "filename": passage.document,
        "score": passage.score,
        "attributes": {},
        "content": [{"type": "text", "text": passage.text}],
        "document_id": passage.document_id,
        "page": passage.page,
        "last_page": passage.last_page,
        "page_label": passage.page_label,
        "similarity": passage.similarity,
        "ranks": passage.ranks,
    }
