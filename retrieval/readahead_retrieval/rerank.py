"""The seam for a second look at the best passages, by a model that reads question and passage together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from readahead_retrieval.fusion import Fused

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

BATCH = 16


class Reranker(Protocol):
    """Scores passages anew. The contract: score i belongs to text i, lies between 0 and 1, and depends on nothing else
    in the list but, where an implementation keeps them, the scores given."""

    async def rescore(self, query: str, texts: Sequence[str], scores: Sequence[float]) -> list[float]:
        """Higher is better. `scores` are those of the fusion."""
        ...


class KeepScores:
    """No second look: what the fusion says stands."""

    async def rescore(self, query: str, texts: Sequence[str], scores: Sequence[float]) -> list[float]:
        return list(scores)


async def second_look(reranker: Reranker, query: str, fused: Sequence[Fused], texts: Sequence[str]) -> list[Fused]:
    """The first of them, as many as there are texts, in the reranker's order; the rest behind them."""
    first, rest = fused[: len(texts)], fused[len(texts) :]
    scores = await reranker.rescore(query, texts, [f.score for f in first])
    again = [replace(f, score=score) for f, score in zip(first, scores, strict=True)]
    return [*sorted(again, key=lambda f: -f.score), *rest]


class CrossEncoderReranker:
    """A sentence-transformers cross-encoder in this process; one thread computes."""

    def __init__(self, model: CrossEncoder) -> None:
        self._model = model
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reranker")

    @classmethod
    async def load(cls, name: str) -> Self:
        """Reads a folder, or fetches what has that name on the hub; takes some seconds, off the loop."""
        return cls(await asyncio.to_thread(_load, name))

    async def rescore(self, query: str, texts: Sequence[str], scores: Sequence[float]) -> list[float]:
        if not texts:
            return []
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._predict, query, list(texts))

    def _predict(self, query: str, texts: list[str]) -> list[float]:
        pairs = [(query, text) for text in texts]
        logits = self._model.predict(pairs, batch_size=BATCH, show_progress_bar=False, activation_fn=_as_they_are())
        return [float(score) for score in 1 / (1 + np.exp(-np.asarray(logits, dtype=np.float64).reshape(-1)))]


async def reranker(name: str) -> Reranker:
    """By `RetrievalSettings.reranker_model`."""
    return await CrossEncoderReranker.load(name) if name else KeepScores()


def _load(name: str) -> CrossEncoder:
    from sentence_transformers import CrossEncoder  # seconds: only for those who use it

    return CrossEncoder(name, device="cpu", num_labels=1)


def _as_they_are() -> object:
    """Logits, whatever the model's own settings say: some squash them, some do not."""
    from torch import nn

    return nn.Identity()
