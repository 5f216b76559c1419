"""Who embeds: our model's process, as the service runs it, and sentence-transformers as its guide loads it."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import numpy as np
import numpy.typing as npt

from readahead_serving.embeddings import EmbeddingModel
from readahead_serving.settings import ServingSettings

Vectors = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], Awaitable[Vectors]]
"""One unit row for each text."""
_STALL_S = 600.0


class PeerMissing(Exception):
    """Its package is not installed."""


@asynccontextmanager
async def ours(
    model: Path, settings: ServingSettings, dtype: Literal["bfloat16", "float32"] | None = None
) -> AsyncIterator[Embed]:
    """Our model on every core, without HTTP; in the settings' number format unless another is named."""
    embedding = await EmbeddingModel.start(
        model.name,
        model,
        threads=len(os.sched_getaffinity(0)),
        dtype=dtype or settings.dtype,
        stall_s=_STALL_S,
        kernels=settings.kernels,
        kernels_dir=settings.kernels_dir,
    )

    async def embed(texts: Sequence[str]) -> Vectors:
        rows = b"".join(await embedding.embed(embedding.tokenize(texts)))
        return unit(np.frombuffer(rows, dtype="<f4").reshape(len(texts), embedding.dimension))

    try:
        yield embed
    finally:
        await embedding.close()


def sentence_transformers(model: Path) -> Embed:
    """The library with its own batches and number format, on every core.

    Raises:
        PeerMissing: It isn't installed.
    """
    try:
        library: Any = importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise PeerMissing(f"pip install 'readahead[bench-peers]': {error}") from error
    loaded = library.SentenceTransformer(str(model), device="cpu")

    async def embed(texts: Sequence[str]) -> Vectors:
        rows = await asyncio.to_thread(loaded.encode, list(texts), show_progress_bar=False)
        return unit(np.asarray(rows, dtype=np.float32))

    return embed


@asynccontextmanager
async def over_http(url: str, model: str) -> AsyncIterator[Embed]:
    """A server's embeddings endpoint, by one connection that is kept.

    Args:
        url: Up to /v1.
        model: As the server calls it.
    """
    async with httpx.AsyncClient(timeout=60.0) as http:

        async def embed(texts: Sequence[str]) -> Vectors:
            body = {"model": model, "input": list(texts), "encoding_format": "float"}
            answer = (await http.post(f"{url}/embeddings", json=body)).raise_for_status().json()
            return unit(np.asarray([row["embedding"] for row in answer["data"]], dtype=np.float32))

        yield embed


def unit(rows: Vectors) -> Vectors:
    """The rows at length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)
