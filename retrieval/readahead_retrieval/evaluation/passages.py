"""Measures the engines, their fusion and a second look on a data set of passages, with search's index and ranking."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.evaluation.dataset import Dataset
from readahead_retrieval.evaluation.metrics import bootstrap_interval, ndcg_at_k, recall_at_k, reciprocal_rank
from readahead_retrieval.evaluation.runner import Report
from readahead_retrieval.fusion import Fused
from readahead_retrieval.index.dense import Hit
from readahead_retrieval.index.generation import Entry, Generation, GenerationWriter
from readahead_retrieval.ranking import rank
from readahead_retrieval.rerank import Reranker, second_look
from readahead_retrieval.tokens import PortableCounter

DEPTH = 100
BATCH = 64
MISS_DEPTH = 5
"""A question is a miss where the last ranking has none of its passages among so many."""


@dataclass(frozen=True, slots=True)
class SecondLook:
    """Who reads the best passages once more, and how many of them."""

    reranker: Reranker
    candidates: int


@dataclass(frozen=True, slots=True)
class _Found:
    """What each stage has to say to one question, best first."""

    dense: list[Hit]
    lexical: list[Hit]
    fused: list[Fused]
    reranked: list[Fused] | None = None

    def ids(self) -> dict[str, list[int]]:
        found = {
            "dense": [hit.chunk_id for hit in self.dense],
            "lexical": [hit.chunk_id for hit in self.lexical],
            "hybrid": [fused.id for fused in self.fused],
        }
        return found if self.reranked is None else found | {"reranked": [fused.id for fused in self.reranked]}


async def evaluate_dataset(
    dataset: Dataset,
    embedder: Embedder,
    *,
    candidates: int,
    counter: PortableCounter | None = None,
    second: SecondLook | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Report:
    """Indexes every passage whole, one entry each, and asks every question.

    Metrics are `<engine>_<measure>`: dense, lexical, hybrid, and reranked where there is a second look; ndcg@10,
    recall@5, recall@10, mrr.

    Args:
        candidates: Passages that each engine gives to the fusion, as in `RetrievalSettings`.
        counter: The model's, which tells what scripts it knows; None to take it to know all.
        on_progress: Called with (stage, done, total).
    """
    told = on_progress or (lambda stage, done, total: None)
    with tempfile.TemporaryDirectory(prefix="readahead-eval-") as folder:
        generation = await _indexed(dataset, embedder, Path(folder) / "generation", told)
        names = list(dataset.passages)
        asked = list(dataset.queries)
        vectors = await _embed(embedder, [dataset.queries[q] for q in asked], "query", told)
        rankings: dict[str, dict[str, list[str]]] = {}
        for done, (query, vector) in enumerate(zip(asked, vectors, strict=True), start=1):
            found = await asyncio.to_thread(_search, generation, dataset.queries[query], vector, candidates, counter)
            if second is not None:
                texts = [dataset.passages[names[fused.id]] for fused in found.fused[: second.candidates]]
                again = await second_look(second.reranker, dataset.queries[query], found.fused, texts)
                found = replace(found, reranked=again)
            rankings[query] = {engine: [names[i] for i in ids] for engine, ids in found.ids().items()}
            told("searching", done, len(asked))
    return _report(dataset, rankings)


async def _indexed(
    dataset: Dataset, embedder: Embedder, folder: Path, told: Callable[[str, int, int], None]
) -> Generation:
    texts = list(dataset.passages.values())
    vectors = await _embed(embedder, texts, "passage", told)

    def build() -> Generation:
        writer = GenerationWriter(folder, dataset.name, embedder.model_id, embedder.dimension)
        for start in range(0, len(texts), BATCH):
            entries = [Entry(start + i, str(start + i), text) for i, text in enumerate(texts[start : start + BATCH])]
            writer.add(entries, vectors[start : start + BATCH])
        return Generation.open(folder, writer.publish())

    return await asyncio.to_thread(build)


async def _embed(
    embedder: Embedder, texts: Sequence[str], kind: Literal["query", "passage"], told: Callable[[str, int, int], None]
) -> Vectors:
    """In order of length, so that a batch pads little."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    vectors = np.empty((len(texts), embedder.dimension), dtype=np.float32)
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        vectors[batch] = await embedder.embed([texts[i] for i in batch], kind)
        told("embedding", start + len(batch), len(texts))
    return vectors


def _search(
    generation: Generation, query: str, vector: Vectors, candidates: int, counter: PortableCounter | None
) -> _Found:
    by_words = counter is not None and not counter.knows(query)
    return _Found(
        generation.dense.search(vector, DEPTH),
        generation.lexical.search(query, DEPTH),
        rank(generation, query, vector, candidates, by_words=by_words).fused,
    )


def _report(dataset: Dataset, rankings: Mapping[str, Mapping[str, Sequence[str]]]) -> Report:
    values: dict[str, list[float]] = {}
    misses: list[dict[str, Any]] = []
    for query, found in rankings.items():
        relevant = dataset.relevant[query]
        for engine, ranking in found.items():
            for measure, value in _measures(ranking, relevant).items():
                values.setdefault(f"{engine}_{measure}", []).append(value)
        if not set(found.get("reranked", found["hybrid"])[:MISS_DEPTH]) & set(relevant):
            misses.append(_miss(query, dataset.queries[query], found, relevant))
    metrics = {name: sum(scores) / len(scores) for name, scores in values.items()}
    metrics |= {"questions": float(len(rankings)), "passages": float(len(dataset.passages))}
    return Report(metrics, {name: bootstrap_interval(scores) for name, scores in values.items()}, misses)


def _measures(ranking: Sequence[str], relevant: Mapping[str, float]) -> dict[str, float]:
    gains: dict[Hashable, float] = dict(relevant.items())
    return {
        "ndcg@10": ndcg_at_k(ranking, gains),
        "recall@5": recall_at_k(ranking, relevant, 5),
        "recall@10": recall_at_k(ranking, relevant, 10),
        "mrr": reciprocal_rank(ranking, relevant),
    }


def _miss(query: str, text: str, found: Mapping[str, Sequence[str]], relevant: Mapping[str, float]) -> dict[str, Any]:
    """The question, and the best rank of a relevant passage in each engine's list; None beyond `DEPTH`."""
    ranks = {
        engine: next((r for r, passage in enumerate(ranking, start=1) if passage in relevant), None)
        for engine, ranking in found.items()
    }
    return {"id": query, "question": text, "wrong": ["hit@5"], "expected": sorted(relevant), "ranks": ranks}
