"""Attention of many queries to one run of keys that all of them see whole.

The queries of every sequence that reads the run are stacked, so that its keys and values are read from memory once for
all of them (Hydragen, arXiv:2402.05099; ChunkAttention, arXiv:2402.15220). What comes out is an attention state, to be
merged by log-sum-exp with those of the keys that each sequence has for itself. A faster kernel goes in here.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

State = tuple[Tensor, Tensor]
"""An output (…, D) and the natural log-sum-exp (…) of its scores, float32."""

MIN_PIECE_TOKENS = 1024
_QUERY_BLOCK = 32
"""Queries that PyTorch's kernel takes at once: a task for one thread is such a block of one head."""


def num_pieces(tokens: int, heads: int, rows: int) -> int:
    """In how many pieces a run is attended: as many as keep every thread busy, for a single query has few tasks.

    More pieces only cost a merge: scripts/measure_shared_attention.py found 5 to 15% for runs of 4,000 and more.
    """
    tasks = heads * -(-rows // _QUERY_BLOCK)
    return max(1, min(-(-torch.get_num_threads() // tasks), tokens // MIN_PIECE_TOKENS))


def flash(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None) -> State:
    """PyTorch's CPU kernel: q (B, H, L, D), k and v (B, KV heads, S, D)."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask)
    return cast("Tensor", out), cast("Tensor", lse)


def merge(states: list[State]) -> State:
    """Merges attention states of the same queries over different keys; every row must have seen a key in each."""
    if len(states) == 1:
        return states[0]
    lses = torch.stack([lse for _, lse in states])
    return _merge_stacked(torch.stack([out for out, _ in states]), lses)


def _merge_stacked(outs: Tensor, lses: Tensor) -> State:
    total = torch.logsumexp(lses, 0)
    weight = torch.exp(lses - total).unsqueeze(-1)
    return (outs * weight).sum(0).to(outs.dtype), total


def attend_run(q: Tensor, keys: Tensor, values: Tensor) -> State:
    """Attends to all keys of one run.

    Args:
        q: (KV heads, R, D): the stacked queries, those that share a KV head side by side.
        keys: (KV heads, S, D), each head's contiguous.
        values: As `keys`.

    Returns:
        The state, (KV heads, R, D) and (KV heads, R).
    """
    heads, tokens, dim = keys.shape
    pieces = num_pieces(tokens, heads, q.shape[1])
    if pieces == 1:
        return _attend_whole(q, keys, values)
    length = tokens // pieces
    even = pieces * length
    k, v = (x[:, :even].view(heads, pieces, length, dim).transpose(0, 1) for x in (keys, values))
    states = [_merge_stacked(*flash(q.expand(pieces, *q.shape), k, v))]
    if even < tokens:
        states.append(_attend_whole(q, keys[:, even:], values[:, even:]))
    return merge(states)


def _attend_whole(q: Tensor, keys: Tensor, values: Tensor) -> State:
    out, lse = flash(q.unsqueeze(0), keys.unsqueeze(0), values.unsqueeze(0))
    return out[0], lse[0]


def attend_blocks(q: Tensor, keys: Tensor, values: Tensor) -> State:
    """Attends to all keys of blocks that are full.

    Args:
        q: (KV heads, R, D).
        keys: (blocks, KV heads, block tokens, D).
        values: As `keys`.

    Returns:
        The state, (KV heads, R, D) and (KV heads, R).
    """
    return _merge_stacked(*flash(q.expand(len(keys), *q.shape), keys, values))
