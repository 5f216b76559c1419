"""Keys and values of a pack as bytes: half the memory of bfloat16, at an error that docs/benchmarks.md tells.

A few channels of keys are far larger than the rest, in all tokens alike, so that keys get a scale for each channel and
group of tokens; values have no such channels and get one for each token (KIVI, Liu et al. 2024, arXiv:2402.02750).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from readahead_serving.engine.kv.pack import KEY_GROUP, PackKV

LARGEST = 127
"""Of a byte: -128 is left out, so that the scale is the same on both sides."""


@torch.inference_mode()
def as_bytes(kv: PackKV) -> PackKV:
    """The same pack in bytes. It takes about as long as copying the pack a few times: call it in a thread."""
    assert not kv.is_bytes
    keys, key_scales = zip(*map(_key_bytes, kv.keys), strict=True)
    values, value_scales = zip(*map(_value_bytes, kv.values), strict=True)
    return PackKV(kv.token_ids, keys, values, key_scales, value_scales)


def _key_bytes(keys: Tensor) -> tuple[Tensor, Tensor]:
    """(KV heads, tokens, head dim) to bytes of that shape and scales (KV heads, groups, head dim)."""
    heads, tokens, dim = keys.shape
    groups = F.pad(keys.float(), (0, 0, 0, -tokens % KEY_GROUP)).view(heads, -1, KEY_GROUP, dim)
    scales = _scales(groups, 2)
    return _rounded(groups, scales.unsqueeze(2)).flatten(1, 2)[:, :tokens].contiguous(), scales


def _value_bytes(values: Tensor) -> tuple[Tensor, Tensor]:
    """(KV heads, tokens, head dim) to bytes of that shape and scales (KV heads, tokens)."""
    scales = _scales(values.float(), 2)
    return _rounded(values.float(), scales.unsqueeze(-1)), scales


def _scales(numbers: Tensor, dim: int) -> Tensor:
    return (numbers.abs().amax(dim) / LARGEST).clamp_min(torch.finfo(torch.float32).tiny)


def _rounded(numbers: Tensor, scales: Tensor) -> Tensor:
    return (numbers / scales).round_().clamp_(-LARGEST, LARGEST).to(torch.int8)
