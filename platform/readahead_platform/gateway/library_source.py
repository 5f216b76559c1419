"""One tenant's view of one knowledge base, for agents, which may search it and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_retrieval.library import Library
from readahead_retrieval.relevance import relevance
from readahead_retrieval.types import Citation, Evidence, KnowledgeBase


@dataclass(frozen=True, slots=True)
class LibrarySource:
    """An `EvidenceSource`; tenant and knowledge base are fixed when it is made."""

    library: Library
    tenant: str
    kb: KnowledgeBase
    score_floor: float

    @property
    def name(self) -> str:
        return self.kb.name

    async def search(self, query: str, top_k: int | None = None) -> list[Evidence]:
        return await self.library.search(self.tenant, self.kb.id, query, top_k)

    async def cite(self, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        return await self.library.cite(self.tenant, answer, evidence)

    def covers(self, question: str, evidence: Sequence[Evidence]) -> bool:
        return relevance(question, evidence) >= self.score_floor
