"""The seam between the decoder and the KV cache: the decoder computes q, k and v; whoever holds the cache attends."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Attention(Protocol):
    """Stores the new keys and values of one layer and attends to all that each token may see.

    The T tokens of a step are those of all its sequences, one after another; the implementation knows whose they are
    and what each has cached. Positions are already in q and k (rotary embedding applied).
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attends causally.

        Args:
            layer: 0-based.
            q: (T, query heads, head dim).
            k: (T, KV heads, head dim).
            v: (T, KV heads, head dim).

        Returns:
            (T, query heads, head dim), in q's dtype.
        """
        ...
