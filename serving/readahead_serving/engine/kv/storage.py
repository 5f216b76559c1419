"""The memory of the KV cache."""

from __future__ import annotations

import math
import mmap

import torch
from torch import Tensor

from readahead_serving.engine.kv.pool import BLOCK_TOKENS
from readahead_serving.errors import ModelLoadError


class KVStorage:
    """Keys and values of all blocks of all layers, allocated once.

    One layer's keys are (blocks, KV heads, block tokens, head dim): a head's keys within a block lie contiguous, which
    is what attention on a CPU reads fastest, and a stretch of neighbouring blocks is one view.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        num_blocks: int,
        block_tokens: int = BLOCK_TOKENS,
    ) -> None:
        shape = (2, num_layers, num_blocks, num_kv_heads, block_tokens, head_dim)
        self._data = _lazy_zeros(shape, dtype)
        self.num_layers = num_layers
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.block_tokens = block_tokens
        self.keys = list(self._data[0].unbind(0))
        self.values = list(self._data[1].unbind(0))

    def token_rows(self, blocks: Tensor, offsets: Tensor) -> Tensor:
        """Rows of the tokens' vectors in a layer seen as (blocks · KV heads · block tokens, head dim).

        Args:
            blocks: (T,) int64, the block of each token.
            offsets: (T,) int64, its place in the block.

        Returns:
            (T, KV heads) int64.
        """
        heads = torch.arange(self.num_kv_heads)
        return (blocks.unsqueeze(1) * self.num_kv_heads + heads) * self.block_tokens + offsets.unsqueeze(1)

    def write(self, layer: int, rows: Tensor, k: Tensor, v: Tensor) -> None:
        """Stores the tokens' k and v, both (T, KV heads, head dim), at their `rows`, flattened to (T · KV heads,)."""
        for cache, new in ((self.keys[layer], k), (self.values[layer], v)):
            cache.view(-1, self.head_dim).index_copy_(0, rows, new.reshape(-1, self.head_dim))

    def copy_block(self, source: int, target: int) -> None:
        """Copies a block's keys and values of all layers."""
        self._data[:, :, target] = self._data[:, :, source]

    def lay_out(self, layer: int, blocks: list[int], tokens: int) -> tuple[Tensor, Tensor]:
        """Copies of the keys and values of the blocks' first `tokens` tokens, each (KV heads, tokens, head dim)."""
        index = torch.tensor(blocks, dtype=torch.long)
        keys, values = (
            cache[layer].index_select(0, index).transpose(0, 1).flatten(1, 2)[:, :tokens].contiguous()
            for cache in (self.keys, self.values)
        )
        return keys, values

    def gather(self, layer: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of the keys and values at `rows`, (KV heads, T) int64; each (KV heads, T, head dim)."""
        shape = (*rows.shape, self.head_dim)
        flat = rows.reshape(-1)
        keys = self.keys[layer].view(-1, self.head_dim).index_select(0, flat)
        values = self.values[layer].view(-1, self.head_dim).index_select(0, flat)
        return keys.view(shape), values.view(shape)


def _lazy_zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that take memory when they are first written, page by page, which `torch.zeros` does not.

    Zeros, because unwritten slots are masked, but a NaN among them would pass through the mask.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return torch.frombuffer(mmap.mmap(-1, nbytes, **private), dtype=dtype).view(shape)


def blocks_in_budget(
    budget_bytes: int, *, num_layers: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype
) -> int:
    """How many blocks fit into `budget_bytes`.

    Raises:
        ModelLoadError: Not even one does.
    """
    block_bytes = 2 * num_layers * num_kv_heads * BLOCK_TOKENS * head_dim * dtype.itemsize
    if budget_bytes < block_bytes:
        raise ModelLoadError(
            f"kv_cache_bytes={budget_bytes} holds no block of {BLOCK_TOKENS} tokens of this model: "
            f"give at least {block_bytes}"
        )
    return budget_bytes // block_bytes
