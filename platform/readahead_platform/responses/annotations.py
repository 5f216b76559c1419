"""Citations as annotations of a message."""

from __future__ import annotations

from typing import Any

from readahead_platform.api.answer_log import citation_object
from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import Citation


async def file_citation(library: Library, tenant: str, citation: Citation) -> dict[str, Any]:
    """OpenAI's file citation, and what it has no field for: the page, the quote and where it stands."""
    return {
        "type": "file_citation",
        "file_id": await _file_id(library, tenant, citation.document_id),
        "filename": citation.document,
        "index": citation.answer_end,
        **citation_object(citation),
    }


async def _file_id(library: Library, tenant: str, document_id: str) -> str:
    try:
        return (await library.get_document(tenant, document_id)).file_id
    except NotFound:
        return document_id  # deleted while the answer was written
