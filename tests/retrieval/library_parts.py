"""What the library's tests share: an embedder that needs no model, and short ways to say what a user does."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.errors import EmbedderUnavailable
from readahead_retrieval.index.analysis import terms
from readahead_retrieval.library import Library
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.store.home import Home
from readahead_retrieval.store.migrate import migrate
from readahead_retrieval.store.session import sqlite_url
from readahead_retrieval.tokens import EstimatedCounter
from readahead_retrieval.types import Document

TENANT = "acme"
DIMENSION = 128


class TermEmbedder:
    """A bag of hashed terms: near is what shares words. Can be away, and tells how often it was asked."""

    dimension = DIMENSION
    max_tokens = 256

    def __init__(self, model_id: str = "terms-1") -> None:
        self.model_id = model_id
        self.asked = 0
        self.failures: Callable[[int], bool] = lambda asked: False

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        self.asked += 1
        if self.failures(self.asked):
            raise EmbedderUnavailable("The tests switched it off.")
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> Vectors:
        vector = np.full(DIMENSION, 1e-3, dtype=np.float32)
        for term in terms(text):
            digest = hashlib.sha256(f"{self.model_id} {term}".encode()).digest()
            vector[digest[0] % DIMENSION] += 1.0
        unit: Vectors = vector / np.linalg.norm(vector)
        return unit


def settings(home: Path, **values: object) -> RetrievalSettings:
    """Chunks so short that each page of the samples has its own."""
    small = {"chunk_tokens": 64, "chunk_overlap_tokens": 0, "embed_batch": 2, "embed_backoff_s": 0.001}
    return RetrievalSettings.model_validate({"home": home, **small, **values})


@functools.cache
def fresh_database() -> bytes:
    """One without rows at the newest revision: hundreds of tests need one, and migrating takes a tenth of a second."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fresh.db"
        migrate(sqlite_url(path))
        return path.read_bytes()


def lay_database(home: Path) -> None:
    """Puts a fresh database into a home that has none."""
    database = Home(home).database
    if not database.exists():
        home.mkdir(parents=True, exist_ok=True)
        database.write_bytes(fresh_database())


@asynccontextmanager
async def opened(home: Path, embedder: Embedder | None = None, **values: object) -> AsyncIterator[Library]:
    if "database_url" not in values:
        await asyncio.to_thread(lay_database, home)
    library = await Library.open(settings(home, **values), embedder or TermEmbedder(), EstimatedCounter())
    try:
        yield library
    finally:
        await library.close()


async def blocks(data: bytes, size: int = 65536) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def upload(library: Library, path: Path, *, tenant: str = TENANT, name: str | None = None) -> str:
    """Returns the file's id."""
    data = await asyncio.to_thread(path.read_bytes)
    return (await library.files.save(tenant, name or path.name, blocks(data))).id


async def add(library: Library, kb: str, path: Path, *, tenant: str = TENANT, password: str | None = None) -> Document:
    """Uploads, adds, and waits until the document is finished."""
    document = await library.add_document(tenant, kb, await upload(library, path, tenant=tenant), password)
    return await finished(library, document.id, tenant=tenant)


async def finished(library: Library, document_id: str, *, tenant: str = TENANT) -> Document:
    async with asyncio.timeout(60):
        seen = [document async for document in library.watch(tenant, document_id)]
    return seen[-1]


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something on disk, of which no event tells."""
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
