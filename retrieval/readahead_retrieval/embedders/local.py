"""A sentence-transformers model in this process: for tests, and for a library used without a server."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from readahead_retrieval.embedding import Vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BATCH = 32


class LocalEmbedder:
    """One thread computes, so that the model never runs twice at the same time."""

    def __init__(self, model: SentenceTransformer, model_id: str) -> None:
        self._model = model
        self.model_id = model_id
        self.dimension = int(model.get_embedding_dimension())
        self.max_tokens = int(model.max_seq_length)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")

    @classmethod
    async def load(cls, path: Path) -> Self:
        """Reads a sentence-transformers folder; takes some seconds, off the loop."""
        model, model_id = await asyncio.to_thread(_load, path)
        return cls(model, model_id)

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        """As `Embedder.embed`; the model makes no difference between queries and passages."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._encode, list(texts))

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _encode(self, texts: list[str]) -> Vectors:
        encoded = self._model.encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(encoded, dtype=np.float32)


def _load(path: Path) -> tuple[SentenceTransformer, str]:
    from sentence_transformers import SentenceTransformer  # seconds: only for those who use it

    return SentenceTransformer(str(path), device="cpu"), f"{path.name}@{_revision(path)}"


def _revision(path: Path) -> str:
    """The weights' own digest: a folder's name says nothing about what is in it."""
    digest = hashlib.sha256()
    for weights in sorted([*path.rglob("*.safetensors"), *path.rglob("pytorch_model.bin")]):
        with weights.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]
