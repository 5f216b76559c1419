"""The service's own embedding model for commands that start no server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.errors import EmbedderRefused, EmbedderUnavailable
from readahead_serving.embeddings import EmbeddingModel
from readahead_serving.errors import EngineBusy, EngineUnavailable, GenerationFailed
from readahead_serving.settings import ServingSettings

_STALL_S = 600.0
"""A batch may take; whoever runs a command sees it hang, and no other waits behind it."""


class OwnEmbedder:
    """Computes as `/v1/embeddings` does, in the same process beside this one, without HTTP between.

    Texts over the window are the caller's to avoid, as over HTTP.
    """

    def __init__(self, model: EmbeddingModel) -> None:
        self._model = model
        self.model_id = f"{model.name}@{model.revision}"
        self.dimension = model.dimension
        self.max_tokens = model.max_model_len

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        """As `Embedder.embed`; the model makes no difference between queries and passages."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        sequences = await asyncio.to_thread(self._model.tokenize, texts)
        try:
            rows = b"".join(await self._model.embed(sequences))
        except (EngineBusy, EngineUnavailable) as error:
            raise EmbedderUnavailable(str(error)) from error
        except GenerationFailed as error:
            raise EmbedderRefused(str(error)) from error
        vectors = np.frombuffer(rows, dtype="<f4").reshape(len(texts), self.dimension)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


@asynccontextmanager
async def own_embedder(path: Path, settings: ServingSettings) -> AsyncIterator[Embedder]:
    """The model of a sentence-transformers folder, on every core: no engine wants them meanwhile.

    Raises:
        ModelLoadError: The folder holds none.
    """
    threads = len(os.sched_getaffinity(0))
    model = await EmbeddingModel.start(
        path.name,
        path,
        threads=threads,
        dtype=settings.dtype,
        stall_s=_STALL_S,
        kernels=settings.kernels,
        kernels_dir=settings.kernels_dir,
    )
    try:
        yield OwnEmbedder(model)
    finally:
        await model.close()
