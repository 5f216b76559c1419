"""`readahead bench search`: a large index is built, opened by another process, and asked one question at a time."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from readahead_retrieval.bench.mixture import Mixture
from readahead_retrieval.embedding import Vectors
from readahead_retrieval.index.dense import MAIN
from readahead_retrieval.index.generation import Entry, Generation, GenerationWriter
from readahead_retrieval.ranking import rank

TOP = 10
WORDS = 24
VOCABULARY = 50_000
CANDIDATES = 40


def bench_search(vectors: int, queries: int, told: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Load and metrics.

    Args:
        vectors: Passages in the index: of 384 numbers and `WORDS` words each.
        queries: Asked one after another, on one thread.
        told: Called with (stage, done, total).
    """
    mixture = Mixture()
    asked = np.concatenate(list(mixture.batches(queries, stream=2)))
    with tempfile.TemporaryDirectory(prefix="readahead-bench-") as folder:
        begun = time.perf_counter()
        writer = GenerationWriter(Path(folder) / "generation", "bench", "mixture", mixture.dimension)
        truth = _Truth(asked)
        done = 0
        spent_on_truth = 0.0
        for batch, texts in zip(mixture.batches(vectors), _texts(vectors), strict=False):
            entries = [Entry(done + i, f"doc_{(done + i) // 100}", next(texts)) for i in range(len(batch))]
            writer.add(entries, batch)
            paused = time.perf_counter()
            truth.add(batch)
            spent_on_truth += time.perf_counter() - paused
            done += len(batch)
            told("building", done, vectors)
        sha256 = writer.publish()
        build_s = time.perf_counter() - begun - spent_on_truth
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            measured = pool.submit(_measure, Path(folder) / "generation", sha256, asked).result()
    recall = [len(set(found) & set(right)) / TOP for found, right in zip(measured.pop("found"), truth.ids, strict=True)]
    load = {"vectors": vectors, "dimension": mixture.dimension, "words": WORDS, "queries": queries, "threads": 1}
    return {"load": load, "metrics": {"build_s": build_s, "recall@10": float(np.mean(recall)), **measured}}


class _Truth:
    """The nearest of all, by comparing each."""

    def __init__(self, queries: Vectors) -> None:
        self._queries = queries
        self._scores = np.full((len(queries), TOP), -np.inf, dtype=np.float32)
        self.ids = np.zeros((len(queries), TOP), dtype=np.int64)
        self._seen = 0

    def add(self, batch: Vectors) -> None:
        scores = np.concatenate([self._scores, self._queries @ batch.T], axis=1)
        new = np.broadcast_to(np.arange(self._seen, self._seen + len(batch)), (len(self._queries), len(batch)))
        ids = np.concatenate([self.ids, new], axis=1)
        best = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
        self._scores, self.ids = np.take_along_axis(scores, best, axis=1), np.take_along_axis(ids, best, axis=1)
        self._seen += len(batch)


def _measure(folder: Path, sha256: str, queries: Vectors) -> dict[str, Any]:
    faiss.omp_set_num_threads(1)
    before = _resident()
    begun = time.perf_counter()
    generation = Generation.open(folder, sha256)
    open_s = time.perf_counter() - begun
    found, dense_ms = [], []
    for query in queries:
        begun = time.perf_counter()
        hits = generation.dense.search(query, TOP)
        dense_ms.append((time.perf_counter() - begun) * 1e3)
        found.append([hit.chunk_id for hit in hits])
    dense_bytes = _resident() - before
    texts = next(_texts(len(queries), seed=3))
    hybrid_ms = []
    for query, text in zip(queries, texts, strict=False):
        begun = time.perf_counter()
        rank(generation, " ".join(text.split()[:8]), query, CANDIDATES)
        hybrid_ms.append((time.perf_counter() - begun) * 1e3)
    return {
        "found": found,
        "open_s": open_s,
        "dense_ms": _percentiles(dense_ms),
        "hybrid_ms": _percentiles(hybrid_ms),
        "dense_resident_bytes": dense_bytes,
        "dense_file_bytes": (folder / f"{MAIN}.faiss").stat().st_size,
    }


def _resident() -> int:
    """Of this process, mapped pages that it touched included; 0 where the system does not tell."""
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[1]) * resource.getpagesize() if status.exists() else 0


def _percentiles(values: list[float]) -> dict[str, float]:
    return {f"p{p}": float(np.percentile(values, p)) for p in (50, 95, 99)}


def _texts(count: int, seed: int = 2) -> Iterator[Iterator[str]]:
    """The same endless texts again and again: words of a vocabulary in which few are common and most are rare."""
    random = np.random.default_rng(seed)

    def endless() -> Iterator[str]:
        while True:
            ranks = np.minimum(random.zipf(1.3, size=(min(count, 10_000), WORDS)), VOCABULARY)
            for row in ranks:
                yield " ".join(f"w{rank}" for rank in row)

    texts = endless()
    while True:
        yield texts
