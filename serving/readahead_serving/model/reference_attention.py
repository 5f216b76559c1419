"""The plainest `Attention`: one sequence, everything attended at once. The yardstick for every faster one."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


class ReferenceAttention:
    """One sequence's cache, grown by concatenation. Feed its tokens in order, any number at a time."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def num_cached(self) -> int:
        """Tokens whose keys and values are held."""
        return len(self._cache[0][0]) if self._cache else 0

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if layer in self._cache:
            old_k, old_v = self._cache[layer]
            k, v = torch.cat((old_k, k)), torch.cat((old_v, v))
        self._cache[layer] = (k.clone(), v.clone())
        # the new tokens are the last ones: row i sees all but the rows after it
        visible = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
        q, k, v = q.transpose(0, 1), k.transpose(0, 1), v.transpose(0, 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=True).transpose(0, 1)
