"""One tenant's view of one knowledge base, for agents, which may search it and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from readahead_agents.named_places import (
    beside_files,
    named_documents,
    named_files,
    names_file,
    page_asked,
)
from readahead_platform.gateway.selection import EVERYTHING, Selection
from readahead_retrieval.library import Library
from readahead_retrieval.relevance import key_terms, relevance
from readahead_retrieval.types import Citation, DocumentState, Evidence, KnowledgeBase

MAX_REMEMBERED = 32
"""Searches of one question; a run has fewer steps."""


@dataclass(frozen=True, slots=True)
class LibrarySource:
    """An `EvidenceSource` for one question; tenant and knowledge base are fixed when it is made."""

    library: Library
    tenant: str
    kb: KnowledgeBase
    score_floor: float
    link_hosts: tuple[str, ...] = ()
    selection: Selection = EVERYTHING
    standalone: Mapping[str, str] = field(default_factory=dict)
    """What is searched for in the place of a question that leans on the turns before it."""
    found: dict[tuple[str, int | None], list[Evidence]] = field(default_factory=dict, compare=False)
    """Searches made before: the route is chosen by what the answer then stands on."""

    missing: dict[str, tuple[str, str]] = field(default_factory=dict, compare=False)
    """Pages that were looked for in documents that lack them, with the document, by the question that names both."""

    @property
    def name(self) -> str:
        return self.kb.name

    async def search(self, query: str, top_k: int | None = None) -> list[Evidence]:
        query = self.standalone.get(query, query)
        if (query, top_k) not in self.found:
            found = await self._search(query, top_k)
            if len(self.found) == MAX_REMEMBERED:
                return found
            self.found[query, top_k] = found
        return list(self.found[query, top_k])

    async def _search(self, query: str, top_k: int | None) -> list[Evidence]:
        documents = self.selection.document_ids
        if documents is not None and not documents:
            return []
        page = self._page_of(query)
        if (page is not None or names_file(query)) and (names := await self._names()):
            if page is not None:
                return await self.on_page(page, query)
            if files := named_files(query, names):
                documents = files
                if not key_terms(beside_files(query, [names[key] for key in files])):
                    return await self.library.passages.throughout(self.tenant, self.kb.id, files)
        return self.selection.kept(await self.library.search(self.tenant, self.kb.id, query, top_k, documents))

    def _page_of(self, query: str) -> str | None:
        """That of the question itself, where turns before it stand in the query."""
        asked = next((question for question, whole in self.standalone.items() if whole == query), query)
        return page_asked(asked) or page_asked(query)

    def only(self, document_id: str) -> LibrarySource:
        """The same, of one document."""
        return replace(self, selection=replace(self.selection, document_ids=(document_id,)), found={})

    async def on_page(self, page: str, question: str) -> list[Evidence]:
        question, names = self.standalone.get(question, question), await self._names()
        if names_file(question) and not named_files(question, names):
            return []
        named = named_documents(question, names)
        documents = named or self.selection.document_ids
        found = await self.library.passages.on_page(self.tenant, self.kb.id, page, documents)
        if len(named) == 1 and not found and len(self.missing) < MAX_REMEMBERED:
            self.missing[question] = (names[named[0]], page)
        return found

    def missing_page(self, question: str) -> tuple[str, str] | None:
        return self.missing.get(self.standalone.get(question, question))

    async def _names(self) -> dict[str, str]:
        """Of the documents that may answer, by their ids."""
        chosen = self.selection.document_ids
        listed = await self.library.list_documents(self.tenant, self.kb.id)
        return {
            document.id: document.name
            for document in listed
            if document.state is DocumentState.SEARCHABLE and (chosen is None or document.id in chosen)
        }

    async def holding(self, text: str) -> list[Evidence]:
        return await self.library.passages.holding(self.tenant, self.kb.id, text, self.selection.document_ids)

    async def cite(self, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        return await self.library.cite(self.tenant, answer, evidence)

    async def nearness(self, question: str, texts: Sequence[str]) -> list[float]:
        return await self.library.nearness(question, texts)

    def covers(self, question: str, evidence: Sequence[Evidence]) -> bool:
        """By the question's own words: whatever is asked behind them, the turns before a follow-up were answered."""
        return relevance(question, evidence) >= self.score_floor
