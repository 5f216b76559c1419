"""Search: both engines side by side, one ranking, no repeats, nothing that was removed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.errors import EmptyKnowledgeBase
from readahead_retrieval.fusion import Fused
from readahead_retrieval.index.analysis import terms
from readahead_retrieval.index.generation import Generation
from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.query import check_document_ids, check_top_k, clean_query
from readahead_retrieval.ranking import Within, rank
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.store import chunks, documents
from readahead_retrieval.store.chunks import StoredChunk
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Evidence, KnowledgeBase

NEAR_DUPLICATE = 0.9
"""Share of terms in common above which two passages are one: the same page in two versions of a document."""


class Searcher:
    def __init__(
        self, settings: RetrievalSettings, database: Database, embedder: Embedder, ingestion: Ingestion
    ) -> None:
        self._settings = settings
        self._database = database
        self._embedder = embedder
        self._ingestion = ingestion

    async def search(
        self, kb: KnowledgeBase, query: str, top_k: int | None, document_ids: Sequence[str] | None
    ) -> list[Evidence]:
        """Best first; as `Library.search`."""
        query = clean_query(query)
        wanted = check_top_k(self._settings.top_k if top_k is None else top_k)
        generation = await self._generation(kb)
        only = await self._filter(kb, document_ids)
        vector = await self._vector(generation, query)
        limit = max(self._settings.candidates, wanted)
        while True:
            found = await asyncio.to_thread(rank, generation, query, vector, limit, only)
            live = await self._live(kb, found.fused)
            kept = _without_near_duplicates(found.fused, live, wanted)
            if len(kept) == wanted or found.exhausted:
                return [_passage(live[f.id], f) for f in kept]
            limit *= 4  # what was found is mostly removed or repeated: look further

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

    async def _filter(self, kb: KnowledgeBase, document_ids: Sequence[str] | None) -> Within | None:
        if document_ids is None:
            return None
        wanted = check_document_ids(document_ids)
        async with self._database.reading() as session:
            return Within(tuple(wanted), tuple(await chunks.ids_of(session, kb.id, wanted)))

    async def _live(self, kb: KnowledgeBase, fused: Sequence[Fused]) -> dict[int, StoredChunk]:
        async with self._database.reading() as session:
            return await chunks.find(session, kb.id, [f.id for f in fused])


def _without_near_duplicates(fused: Sequence[Fused], live: dict[int, StoredChunk], wanted: int) -> list[Fused]:
    kept: list[Fused] = []
    seen: list[frozenset[str]] = []
    for candidate in fused:
        if len(kept) == wanted:
            break
        if candidate.id not in live:
            continue
        words = frozenset(terms(live[candidate.id].text))
        if not any(_overlap(words, other) >= NEAR_DUPLICATE for other in seen):
            kept.append(candidate)
            seen.append(words)
    return kept


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard's coefficient."""
    union = len(one | other)
    return len(one & other) / union if union else 1.0


def _passage(chunk: StoredChunk, fused: Fused) -> Evidence:
    return Evidence(
        chunk_id=chunk.id,
        document_id=chunk.document_id,
        document=chunk.document,
        page=chunk.first_page,
        last_page=chunk.last_page,
        page_label=chunk.page_label,
        heading=chunk.heading,
        text=chunk.text,
        score=fused.score,
        similarity=fused.similarity or 0.0,
        ranks=fused.ranks,
    )
