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

PIECE_TOKENS = 1024
"""Keys and values of one call's pieces, 128 KB each for a head of 64 in bfloat16: a piece stays in a core's cache
while all blocks of 32 queries pass over it, and there are pieces enough for every core, also for a single query."""


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
        keys: (KV heads, S, D), contiguous.
        values: As `keys`.

    Returns:
        The state, (KV heads, R, D) and (KV heads, R).
    """
    heads, tokens, dim = keys.shape
    pieces = tokens // PIECE_TOKENS
    whole = pieces * PIECE_TOKENS
    states = []
    if pieces:
        k, v = (x[:, :whole].view(heads, pieces, PIECE_TOKENS, dim).transpose(0, 1) for x in (keys, values))
        states.append(_merge_stacked(*flash(q.expand(pieces, *q.shape), k, v)))
    if whole < tokens:
        out, lse = flash(q.unsqueeze(0), keys[:, whole:].unsqueeze(0), values[:, whole:].unsqueeze(0))
        states.append((out[0], lse[0]))
    return merge(states)


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
