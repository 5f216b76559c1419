"""/v1/vector_stores/{store}/search: passages for a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from readahead_platform.api.attribute_filters import Filter
from readahead_platform.api.lines import line_objects
from readahead_platform.api.passage_files import files_of
from readahead_platform.gateway.auth import Tenant
from readahead_platform.gateway.dependencies import Context
from readahead_platform.gateway.scores import score
from readahead_retrieval.boxes import Line
from readahead_retrieval.library import Library
from readahead_retrieval.types import Attachment, Evidence

router = APIRouter()
MAX_QUERIES = 32


class RankingOptions(BaseModel):
    """OpenAI's; the ranker is ours whatever its name says."""

    model_config = ConfigDict(extra="ignore")

    score_threshold: float | None = None


class SearchRequest(BaseModel):
    """OpenAI's body; `rewrite_query` changes nothing, as a query by itself has no conversation to be rewritten from."""

    model_config = ConfigDict(extra="ignore")

    query: str | Annotated[list[str], Field(min_length=1, max_length=MAX_QUERIES)]
    max_num_results: int = Field(default=10, ge=1, le=50)
    filters: Filter | None = None
    ranking_options: RankingOptions = RankingOptions()
    rewrite_query: bool = False


@router.post("/v1/vector_stores/{store}/search")
async def search(store: str, body: SearchRequest, tenant: Tenant, context: Context) -> dict[str, Any]:
    queries = [body.query] if isinstance(body.query, str) else body.query
    found = await _found(store, body, "\n".join(queries), tenant, context.library)
    floor = body.ranking_options.score_threshold
    kept = [passage for passage in found if floor is None or score(passage) >= floor]
    files = await files_of(context.library, tenant, store, body.filters) if kept else {}
    lines = await context.library.chunks.lines(tenant, [passage.chunk_id for passage in kept])
    return {
        "object": "vector_store.search_results.page",
        "search_query": queries,
        "data": [
            _result(passage, files[passage.document_id], lines.get(passage.chunk_id, ()))
            for passage in kept
            if passage.document_id in files
        ],
        "has_more": False,
        "next_page": None,
    }


async def _found(store: str, body: SearchRequest, query: str, tenant: str, library: Library) -> list[Evidence]:
    documents = None if body.filters is None else await library.matching(tenant, store, body.filters.matches)
    if documents == []:
        return []
    return await library.search(tenant, store, query, body.max_num_results, documents)


def _result(passage: Evidence, file: Attachment, lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "file_id": file.file_id,
        "filename": file.name,
        "score": score(passage),
        "attributes": dict(file.attributes),
        "content": [{"type": "text", "text": passage.text}],
        "document_id": passage.document_id,
        "chunk_id": str(passage.chunk_id),
        "page": passage.page,
        "last_page": passage.last_page,
        "page_label": passage.page_label,
        "boxes": line_objects(lines),
        "similarity": passage.similarity,
        "fused_score": passage.score,
        "ranks": passage.ranks,
    }
