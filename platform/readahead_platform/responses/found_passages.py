"""What searches of our own knowledge server found for one response, and what an answer says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from readahead_agents.answering.cited import citations_of
from readahead_agents.mcp.knowledge_results import Passages
from readahead_platform.gateway.library_source import LibrarySource
from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import Citation, Evidence

SEARCH = "kb_search"
MAX_PASSAGES = 16
"""The newest of them: question and answer are compared with each."""
UNSUPPORTED = "No passage that the searches found supports a sentence of this answer."


class FoundPassages:
    """The passages of one tenant's documents that a model was shown."""

    def __init__(self, library: Library, tenant: str, score_floor: float) -> None:
        self._library = library
        self._tenant = tenant
        self._score_floor = score_floor
        self._found: dict[int, Evidence] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """The structured result of a search."""
        for passage in Passages.model_validate(result).results:
            chunk_id = int(passage.chunk_id)
            self._found.pop(chunk_id, None)
            self._found[chunk_id] = Evidence(
                chunk_id=chunk_id,
                document_id=passage.document_id,
                document=passage.document,
                page=passage.page,
                last_page=passage.page,
                page_label=passage.page_label,
                heading=passage.heading,
                text=passage.text,
                score=passage.similarity,
                similarity=passage.similarity,
            )

    async def citations(self, question: str, text: str) -> tuple[Citation, ...] | None:
        """Of the sentences that passages support, by the judge that answers from documents pass; None where nothing
        was found that could support any."""
        passages = list(self._found.values())[-MAX_PASSAGES:]
        if not passages or not text.strip():
            return None
        try:
            document = await self._library.get_document(self._tenant, passages[-1].document_id)
            kb = await self._library.get_kb(self._tenant, document.kb_id)
        except NotFound:
            return None  # deleted while the answer was written
        source = LibrarySource(self._library, self._tenant, kb, self._score_floor)
        # a model searches by words of its own, and the judge goes by the question's
        near = await source.nearness(question, [passage.text for passage in passages])
        passages = [
            replace(passage, similarity=max(own, passage.similarity))
            for own, passage in zip(near, passages, strict=True)
        ]
        return await citations_of(source, question, text, passages)
