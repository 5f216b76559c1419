"""`readahead bench ingest`: from files on disk to searchable, and reading alone, beside what else people use."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from readahead_retrieval.bench.peers import PEERS, PeerMissing
from readahead_retrieval.embedding import Embedder
from readahead_retrieval.ingest.pipeline import read_limits
from readahead_retrieval.library import Library
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.pdf.readers import Readers
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.tokens import TokenizerCounter
from readahead_retrieval.types import Document, DocumentState

_TENANT = _KB = "bench"
BLOCK = 1 << 20


def bench_ingest(
    folder: Path,
    model: Path,
    embedder: Callable[[Path], AbstractAsyncContextManager[Embedder]],
    settings: RetrievalSettings,
    told: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Load and metrics: our own pipeline, then each peer that is installed, on the same files and embedding model.

    Ours computes it as `embedder` does; the peers as their guides load it.

    Args:
        folder: Its PDFs are ingested.
        model: A sentence-transformers folder; each pipeline loads it before its time begins.
        embedder: Loads the model for our own pipeline.
        settings: Sizes of chunks and batches; `home` is not touched.
        told: Called with (stage, done, total).
    """
    files = sorted(folder.rglob("*.pdf"))
    ours = asyncio.run(_ours(files, model, embedder, settings, told))
    peers: dict[str, Any] = {}
    for name, peer in PEERS.items():
        told(name, 0, 1)
        try:
            peers[name] = peer(files, model)
        except PeerMissing as missing:
            peers[name] = {"missing": str(missing)}
            continue
        peers[name]["times_ours"] = peers[name]["seconds"] / ours["seconds"]
    load = {"folder": folder.name, "documents": len(files), "pages": ours["pages"], "model": model.name}
    return {"load": load, "metrics": {**ours, "pages_per_s": ours["pages"] / ours["seconds"], "peers": peers}}


async def _ours(
    files: list[Path],
    model: Path,
    load: Callable[[Path], AbstractAsyncContextManager[Embedder]],
    settings: RetrievalSettings,
    told: Callable[[str, int, int], None],
) -> dict[str, Any]:
    counter = TokenizerCounter.from_file(model / "tokenizer.json")
    async with load(model) as embedder:
        await embedder.embed(["warm"], "passage")
        with tempfile.TemporaryDirectory(prefix="readahead-bench-") as home:
            own = settings.model_copy(update={"home": Path(home), "database_url": ""})
            library = await Library.open(own, embedder, counter)
            try:
                await library.create_kb(_TENANT, _KB)
                begun = time.perf_counter()
                ended = await _ingest(library, files, told)
                seconds = time.perf_counter() - begun
            finally:
                await library.close()
    searchable = [document for document in ended if document.state is DocumentState.SEARCHABLE]
    return {
        "seconds": seconds,
        "reading_s": await _read(files, settings),
        "pages": sum(document.pages for document in searchable),
        "chunks": sum(document.chunks for document in searchable),
        "not_searchable": len(files) - len(searchable),
    }


async def _ingest(library: Library, files: list[Path], told: Callable[[str, int, int], None]) -> list[Document]:
    """The documents as they ended."""
    stored = [await library.files.save(_TENANT, path.name, _blocks(path)) for path in files]
    added = [await library.add_document(_TENANT, _KB, file.id) for file in stored]
    ended = []
    for document in added:
        ended.append([state async for state in library.watch(_TENANT, document.id)][-1])
        told("ours", len(ended), len(files))
    return ended


async def _read(files: list[Path], settings: RetrievalSettings) -> float:
    """Seconds for reading alone, as many files at a time as ingestion reads and without recognising scans."""
    begun = time.perf_counter()
    turn = asyncio.Semaphore(settings.ingest_concurrency)
    async with Readers() as readers, asyncio.TaskGroup() as group:

        async def read(path: Path) -> None:
            async with turn, open_pdf(path, read_limits(settings), readers=readers) as pdf:
                async for _ in pdf.pages():
                    pass

        for path in files:
            group.create_task(read(path))
    return time.perf_counter() - begun


async def _blocks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            yield block
