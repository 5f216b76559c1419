"""The linear layers' seam: how a weight matrix is held and multiplied is decided once, at load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


class Linear(Protocol):
    """y = x Wᵀ + b. `x` is (T, in), contiguous, in the model's dtype; the result is (T, out) in the same."""

    def __call__(self, x: Tensor) -> Tensor: ...


LinearFactory = Callable[[Tensor, Tensor | None], Linear]
"""Takes a weight (out, in) and a bias (out) or None, both in the model's dtype."""


class PlainLinear:
    """The weight as it is."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self._weight, self._bias)


class PackedLinear:
    """The bf16 weight in oneDNN's blocked layout, which spares a reordering at every call."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return y


def choose_linear(dtype: torch.dtype) -> LinearFactory:
    """The fastest form for this machine: packed where the CPU multiplies bf16 itself (AMX or AVX-512), else plain."""
    multiplies_bf16 = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return PackedLinear if dtype is torch.bfloat16 and multiplies_bf16 else PlainLinear
