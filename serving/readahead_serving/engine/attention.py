"""Attention of one step over the paged KV cache.

Every query attends to one or more stretches of keys, each giving an output and the log-sum-exp of its scores, and the
parts are merged exactly ("attention states", FlashInfer, https://flashinfer.ai/2024/02/02/cascade-inference.html).
Two facts about PyTorch's CPU flash kernel shape the code: its causal mask is aligned at the top left, so that a prefix
takes a call of its own without a mask; and it gives 0, not minus infinity, as the log-sum-exp of a row that sees no
key, so that such rows must be kept out of a merge.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.scheduler.plan import Chunk

IN_PLACE_SHARE = 0.5
"""Blocks are read in place when at least this share of the stretch they span belongs to the batch, else copied
together; measured, the copy costs 30-60% of the attention itself."""


def _flash(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask)
    return cast("Tensor", out), cast("Tensor", lse)


def merge_pair(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """Merges two attention states of the same queries.

    Args:
        first: Output (…, D) and natural log-sum-exp (…) in float32.
        second: The same for other keys; every row must have seen a key.

    Returns:
        (…, D) in the outputs' dtype.
    """
    (out_a, lse_a), (out_b, lse_b) = first, second
    share = torch.sigmoid(lse_a - lse_b).unsqueeze(-1)
    return torch.lerp(out_b.float(), out_a.float(), share).to(out_a.dtype)


def merge_scattered(out: Tensor, lse: Tensor, owner: Tensor, rows: int) -> Tensor:
    """Merges any number of attention states for each row.

    Args:
        out: (N, …, D), the states' outputs.
        lse: (N, …) float32, their natural log-sum-exps.
        owner: (N,) int64, the row of each state; `rows` itself discards the state.
        rows: Number of rows; each owns at least one state.

    Returns:
        (rows, …, D) in out's dtype.
    """
    index = owner.view(-1, *(1,) * (lse.dim() - 1)).expand_as(lse)
    top = lse.new_full((rows + 1, *lse.shape[1:]), float("-inf")).scatter_reduce_(0, index, lse, "amax")
    weight = torch.exp(lse - top.index_select(0, owner))
    total = weight.new_zeros(top.shape).index_add_(0, owner, weight)
    summed = weight.new_zeros((rows + 1, *out.shape[1:])).index_add_(0, owner, out * weight.unsqueeze(-1))
    return (summed[:rows] / total[:rows].unsqueeze(-1)).to(out.dtype)


@dataclass(frozen=True, slots=True)
class _DecodeGroup:
    """The sequences that compute one token each, attended in a single call over all their blocks."""

    count: int
    blocks: slice | Tensor
    """The cache's blocks to read: a stretch in place, or (N,) int64 to copy."""
    owner: Tensor
    """(N,) int64: the sequence of each block; `count` for a block of nobody's."""
    mask: Tensor
    """(N, 1, 1, block tokens): 0 where the owner may look, minus infinity elsewhere."""

    @classmethod
    def of(cls, chunks: Seq[Chunk], block_tokens: int, dtype: torch.dtype) -> _DecodeGroup:
        held = [
            (block, row, chunk.end - place * block_tokens)
            for row, chunk in enumerate(chunks)
            for place, block in enumerate(chunk.sequence.blocks)
            if place * block_tokens < chunk.end
        ]
        ids = torch.tensor([block for block, _, _ in held])
        low, high = int(ids.min()), int(ids.max()) + 1
        blocks: slice | Tensor = ids
        if len(held) >= IN_PLACE_SHARE * (high - low):
            blocks = slice(low, high)
            place, size = ids - low, high - low
        else:
            place, size = torch.arange(len(held)), len(held)
        owner = torch.full((size,), len(chunks)).index_copy_(0, place, torch.tensor([row for _, row, _ in held]))
        visible = torch.zeros(size, dtype=torch.long)
        visible.index_copy_(0, place, torch.tensor([tokens for _, _, tokens in held]))
        hidden = torch.arange(block_tokens) >= visible.unsqueeze(1)
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
        return cls(len(chunks), blocks, owner, mask.view(size, 1, 1, block_tokens))


@dataclass(frozen=True, slots=True)
class _Span:
    """A sequence that computes several tokens: its rows of the step, and where its earlier tokens lie."""

    rows: slice
    prefix: Tensor | None
    """(KV heads, P) int64 rows of the cache; None without earlier tokens."""


class BatchAttention:
    """Implements `readahead_serving.model.attention.Attention` for the chunks of one step.

    Chunks of a single token come first.
    """

    def __init__(self, storage: KVStorage, chunks: Seq[Chunk]) -> None:
        self._storage = storage
        singles = [chunk for chunk in chunks if chunk.count == 1]
        assert list(chunks[: len(singles)]) == singles, "chunks of one token come first"
        dtype = storage.keys[0].dtype
        self._decode = _DecodeGroup.of(singles, storage.block_tokens, dtype) if singles else None
        self._spans: list[_Span] = []
        start = len(singles)
        for chunk in chunks[len(singles) :]:
            prefix = self._rows(chunk, 0, chunk.start).t().contiguous() if chunk.start else None
            self._spans.append(_Span(slice(start, start + chunk.count), prefix))
            start += chunk.count
        self._written = torch.cat([self._rows(chunk, chunk.start, chunk.end) for chunk in chunks]).reshape(-1)

    def _rows(self, chunk: Chunk, start: int, end: int) -> Tensor:
        positions = torch.arange(start, end)
        blocks = torch.tensor(chunk.sequence.blocks)[positions // self._storage.block_tokens]
        return self._storage.token_rows(blocks, positions % self._storage.block_tokens)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self._storage.write(layer, self._written, k, v)
        parts = []
        if self._decode is not None:
            parts.append(self._attend_singles(self._decode, layer, q[: self._decode.count]))
        parts.extend(self._attend_span(span, layer, q[span.rows], k[span.rows], v[span.rows]) for span in self._spans)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _attend_singles(self, group: _DecodeGroup, layer: int, q: Tensor) -> Tensor:
        # The queries that share a KV head are rows of one problem, so that each key is read once for all of them.
        folded = q.reshape(group.count, self._storage.num_kv_heads, -1, self._storage.head_dim)
        queries = folded.index_select(0, group.owner.clamp(max=group.count - 1))
        keys, values = self._storage.keys[layer][group.blocks], self._storage.values[layer][group.blocks]
        out, lse = _flash(queries, keys, values, mask=group.mask)
        return merge_scattered(out, lse, group.owner, group.count).reshape(q.shape)

    def _attend_span(self, span: _Span, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        queries, keys, values = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        out, lse = _flash(queries, keys, values, causal=True)
        if span.prefix is not None:
            out = merge_pair(_flash(queries, *self._storage.gather(layer, span.prefix)), (out, lse))
        return out.squeeze(0).transpose(0, 1)
