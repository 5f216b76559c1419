"""A sentence-transformers model that takes token ids: without padding where it is of BERT's kind."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from readahead_serving.embedding_bert import BertEncoder, runs_of
from readahead_serving.kernels.library import Kernels

_REVISION_DIGITS = 12
_POOLED_BY_ITSELF = frozenset({"Pooling", "Dense", "Normalize"})
"""Modules of sentence-transformers that need no more than one text's hidden states."""


class Encoder:
    """An embedding model on the processor.

    Args:
        path: The model's folder.
        threads: Compute threads. One leaves the other cores to the engine, whose small operations wait for each other.
        bfloat16: Compute in bfloat16 where the processor knows it (AMX, AVX-512 BF16); elsewhere float32 wins.
        kernels: Attend by these.
    """

    def __init__(self, path: Path, *, threads: int, bfloat16: bool, kernels: Kernels | None = None) -> None:
        torch.set_num_threads(threads)
        use_bfloat16 = bfloat16 and (torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())
        with ThreadPoolExecutor(1) as beside:  # reading the file twice costs a fraction of a second, but not twice
            revision = beside.submit(_revision, path)
            model = SentenceTransformer(str(path), device="cpu", local_files_only=True).eval()
            self.revision = revision.result()
        self.dimension = int(model.get_embedding_dimension())
        self.max_length = int(model.max_seq_length)
        self._compute = _choose(model, torch.bfloat16 if use_bfloat16 else torch.float32, kernels)

    def embed(self, batch: Sequence[Sequence[int]]) -> bytes:
        """Vectors of token id sequences, special tokens included, as float32 bytes: (sequences, dimension)."""
        with torch.inference_mode():
            return self._compute(batch).float().numpy().tobytes()


_Compute = Callable[[Sequence[Sequence[int]]], Tensor]


def _choose(model: SentenceTransformer, dtype: torch.dtype, kernels: Kernels | None) -> _Compute:
    first, *rest = model
    inner = getattr(first, "auto_model", None)
    if BertEncoder.computes(inner) and all(type(module).__name__ in _POOLED_BY_ITSELF for module in rest):
        return _Unpadded(BertEncoder(inner, dtype, kernels), rest)
    return _Padded(model.to(dtype))


class _Unpadded:
    """Every text as if it were alone: neither time nor a rounding is spent on its neighbours' length."""

    def __init__(self, encoder: BertEncoder, poolings: Sequence[Any]) -> None:
        self._encoder = encoder
        self._poolings = poolings

    def __call__(self, batch: Sequence[Sequence[int]]) -> Tensor:
        order = sorted(range(len(batch)), key=lambda index: len(batch[index]))
        ordered = [batch[index] for index in order]
        runs = runs_of(ordered)
        hidden = self._encoder(ordered, runs)
        pooled = [self._pool(hidden[run.start : run.end].view(run.texts, run.length, -1)) for run in runs]
        vectors = torch.empty(len(batch), pooled[0].shape[-1])
        vectors[order] = torch.cat(pooled)
        return vectors

    def _pool(self, hidden: Tensor) -> Tensor:
        """(texts, tokens, width) to (texts, dimension), in float32."""
        features: dict[str, Tensor] = {
            "token_embeddings": hidden.float(),
            "attention_mask": torch.ones(hidden.shape[:2], dtype=torch.int64),
        }
        for pooling in self._poolings:
            features = pooling(features)
        return features["sentence_embedding"]


class _Padded:
    """Any other family, as sentence-transformers computes it."""

    def __init__(self, model: SentenceTransformer) -> None:
        self._model = model
        self._padding_id = int(model.tokenizer.pad_token_id or 0)

    def __call__(self, batch: Sequence[Sequence[int]]) -> Tensor:
        ids = torch.full((len(batch), max(map(len, batch))), self._padding_id)
        mask = torch.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        vectors: Tensor = self._model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]
        return vectors


def _revision(path: Path) -> str:
    """The weights' own digest: a folder's name says nothing about what is in it."""
    digest = hashlib.sha256()
    for weights in sorted([*path.rglob("*.safetensors"), *path.rglob("pytorch_model.bin")]):
        with weights.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:_REVISION_DIGITS]
