"""Retrieval's workloads by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readahead_retrieval.embedding import Embedder
from readahead_retrieval.settings import RetrievalSettings

WORKLOADS = {
    "ingest": "Every PDF of a folder from disk to searchable, beside LangChain and Haystack where they are installed",
    "read": "Every PDF of a folder read, pages a second by the clock and by processor time, beside pypdf",
    "search": "A million vectors and texts (or --size): build, open, one question after another on one thread",
}
LoadEmbedder = Callable[[Path], AbstractAsyncContextManager[Embedder]]
"""Loads the model of a folder, for as long as it is used."""
VECTORS, QUERIES = 1_000_000, 500


@dataclass(frozen=True, slots=True)
class BenchOptions:
    folder: Path
    """Of PDFs, for `ingest` and `read`."""
    model: Path | None
    """A sentence-transformers folder, for `ingest`."""
    size: int
    queries: int
    embedder: LoadEmbedder
    """What our own pipeline embeds with, for `ingest`."""


def run(
    workload: str, options: BenchOptions, settings: RetrievalSettings, told: Callable[[str, int, int], None]
) -> dict[str, Any]:
    """The report's `load` and `metrics`. Blocks."""
    if workload == "search":
        from readahead_retrieval.bench.search import bench_search

        return bench_search(options.size, options.queries, told)
    if workload == "read":
        from readahead_retrieval.bench.read import bench_read

        return bench_read(options.folder, settings, told)
    from readahead_retrieval.bench.ingest import bench_ingest

    assert options.model is not None, "ingest embeds"
    return bench_ingest(options.folder, options.model, options.embedder, settings, told)
