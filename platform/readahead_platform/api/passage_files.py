"""The files that passages are from, as OpenAI's search results name them."""

from __future__ import annotations

from readahead_platform.api.attribute_filters import Filter
from readahead_retrieval.library import Library
from readahead_retrieval.types import Attachment


async def files_of(library: Library, tenant: str, kb: str, filters: Filter | None = None) -> dict[str, Attachment]:
    """By document, the oldest of its files that passes the filters."""
    files: dict[str, Attachment] = {}
    for attachment in await library.attachments(tenant, kb):
        if filters is None or filters.matches(attachment.attributes):
            files.setdefault(attachment.document.id, attachment)
    return files
