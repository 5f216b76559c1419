"""Search: both engines side by side, one ranking, no repeats, nothing that was removed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.errors import EmptyKnowledgeBase
from readahead_retrieval.fusion import Fused
from readahead_retrieval.index.generation import Generation
from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.query import check_top_k, clean_query
from readahead_retrieval.ranking import Within, rank
from readahead_retrieval.rerank import Reranker, second_look
from readahead_retrieval.selection import Dropped, Judged, select, weighed
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.store import chunks, documents
from readahead_retrieval.store.chunks import StoredChunk, under_heading
from readahead_retrieval.store.session import Database
from readahead_retrieval.tokens import PortableCounter
from readahead_retrieval.types import Evidence, KnowledgeBase


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that a search considered, as a retrieval test shows it."""

    evidence: Evidence
    """`ranks` are those of the engines, `similarity` the dense side's score, `score` the final one."""
    rank: int
    """1-based, after fusion and a second look."""
    lexical_score: float
    """BM25; 0 where the words did not find it."""
    dropped: Dropped | None
    """Why a search does not return it."""


class Searcher:
    def __init__(
        self,
        settings: RetrievalSettings,
        database: Database,
        embedder: Embedder,
        ingestion: Ingestion,
        reranker: Reranker,
        counter: PortableCounter,
    ) -> None:
        self._settings = settings
        self._database = database
        self._embedder = embedder
        self._ingestion = ingestion
        self._reranker = reranker
        self._counter = counter

    async def search(
        self, kb: KnowledgeBase, query: str, top_k: int | None, document_ids: Sequence[str] | None
    ) -> list[Evidence]:
        """Best first; as `Library.search`."""
        considered = await self.explain(kb, query, top_k, document_ids)
        return [candidate.evidence for candidate in considered if candidate.dropped is None]

    async def explain(
        self,
        kb: KnowledgeBase,
        query: str,
        top_k: int | None = None,
        document_ids: Sequence[str] | None = None,
        per_document: int | None = None,
    ) -> list[Candidate]:
        """Every passage that a search with these arguments considers, in its order.

        Args:
            per_document: Passages of one document at most; None for the settings', which hold where there are several.
        """
        query = clean_query(query)
        wanted = check_top_k(self._settings.top_k if top_k is None else top_k)
        generation = await self._generation(kb)
        within = await self._within(kb, document_ids)
        vector = await self._vector(generation, query)
        by_words = not self._counter.knows(query)
        cap = self._cap(document_ids) if per_document is None else per_document
        limit = max(self._settings.candidates, wanted)
        while True:
            found = await asyncio.to_thread(rank, generation, query, vector, limit, within, by_words=by_words)
            live = await self._live(kb, found.fused)
            if len(live) < len(found.fused) and await self._generation(kb) is not generation:
                # Another index took its place meanwhile, and documents were read anew: it knows their passages.
                return await self.explain(kb, query, top_k, document_ids, per_document)
            fused = await asyncio.to_thread(weighed, found.fused, live)
            ranked = await self._rescored(query, fused, live)
            judged = await asyncio.to_thread(select, ranked, live, wanted, cap)
            if found.exhausted or sum(item.dropped is None for item in judged) == wanted:
                return [_candidate(place, item) for place, item in enumerate(judged, start=1)]
            limit *= 4  # what was found is mostly removed or repeated: look further

    def _cap(self, document_ids: Sequence[str] | None) -> int | None:
        one = document_ids is not None and len(set(document_ids)) < 2
        return None if one else self._settings.per_document or None

    async def _rescored(self, query: str, fused: Sequence[Fused], live: Mapping[int, StoredChunk]) -> list[Fused]:
        """The best of them in the reranker's order, the rest behind them."""
        texts = [under_heading(live[f.id].heading, live[f.id].text) for f in fused[: self._settings.rerank_candidates]]
        return await second_look(self._reranker, query, fused, texts)

    async def _generation(self, kb: KnowledgeBase) -> Generation:
        async with self._database.reading() as session:
            searchable = await documents.any_published(session, kb.id)
        generation = await self._ingestion.generation(kb.id) if searchable else None
        if generation is None:
            raise EmptyKnowledgeBase(f"The knowledge base {kb.name!r} holds no searchable document yet: add one.")
        return generation

    async def _vector(self, generation: Generation, query: str) -> Vectors | None:
        """None while the index is another model's, until the documents are embedded anew: words are searched alone."""
        if generation.manifest.embedding_model != self._embedder.model_id:
            return None
        vectors = await self._embedder.embed([query], "query")
        vector: Vectors = vectors[0]
        return vector

    async def _within(self, kb: KnowledgeBase, document_ids: Sequence[str] | None) -> Within | None:
        if document_ids is None:
            return None
        wanted = tuple(dict.fromkeys(document_ids))
        async with self._database.reading() as session:
            return Within(wanted, tuple(await chunks.ids_of(session, kb.id, wanted)))

    async def _live(self, kb: KnowledgeBase, fused: Sequence[Fused]) -> dict[int, StoredChunk]:
        async with self._database.reading() as session:
            return await chunks.find(session, kb.id, [f.id for f in fused])


def _candidate(place: int, judged: Judged) -> Candidate:
    fused = judged.fused
    evidence = judged.chunk.evidence(fused.score, fused.similarity or 0.0, fused.ranks)
    return Candidate(evidence, place, fused.lexical_score, judged.dropped)
