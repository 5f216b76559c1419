"""The embedding table's seam: a table of its own, or the rows of an output layer that is tied to it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


@runtime_checkable
class Embedding(Protocol):
    """Vectors of tokens."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the vectors."""
        ...

    def rows(self, ids: Tensor) -> Tensor:
        """(T) int64 to (T, hidden)."""
        ...


class EmbeddingTable:
    """A tensor (vocab, hidden)."""

    def __init__(self, table: Tensor) -> None:
        self._table = table

    @property
    def dtype(self) -> torch.dtype:
        return self._table.dtype

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self._table)
