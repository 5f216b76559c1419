"""What a layer does beside attention and matrices, behind a seam: PyTorch's form is the reference and the fallback."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from readahead_serving.kernels.library import Kernels
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.rope import rotate

_LANES = 16
"""The kernels work on so many numbers at a time, at most."""


class Operations(Protocol):
    """The small operations of a layer; all tensors are contiguous but for the rows of `rotate`."""

    def add_and_normalize(
        self, hidden: Tensor, delta: Tensor | None, weight: Tensor, epsilon: float, dtype: torch.dtype
    ) -> Tensor:
        """Adds to the residual stream and normalises it.

        Args:
            hidden: (T, n) float32; `delta` is added in place.
            delta: (T, n) in `dtype`, or None where there is nothing to add.
            weight: (n) float32.
            epsilon: Added to the mean square.
            dtype: Of the result.

        Returns:
            (T, n): `hidden` over its root mean square, times `weight`.
        """
        ...

    def gate(self, x: Tensor) -> Tensor:
        """(T, 2n) to (T, n): SiLU of the first half of each row, times the second."""
        ...

    def rotate(self, x: Tensor, factors: tuple[Tensor, Tensor]) -> Tensor:
        """Turns (T, heads, D) by factors of (T, 1, D), as `RotaryEmbedding.at` gives them; may do so in place."""
        ...


class TorchOperations:
    """By PyTorch."""

    def add_and_normalize(
        self, hidden: Tensor, delta: Tensor | None, weight: Tensor, epsilon: float, dtype: torch.dtype
    ) -> Tensor:
        if delta is not None:
            hidden.add_(delta)
        return F.rms_norm(hidden, weight.shape, weight, epsilon).to(dtype)

    def gate(self, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)

    def rotate(self, x: Tensor, factors: tuple[Tensor, Tensor]) -> Tensor:
        return rotate(x, factors)


class KernelOperations:
    """By the compiled kernels, which round once where PyTorch rounds after each step."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def add_and_normalize(
        self, hidden: Tensor, delta: Tensor | None, weight: Tensor, epsilon: float, dtype: torch.dtype
    ) -> Tensor:
        return self._kernels.add_and_normalize(hidden, delta, weight, epsilon, dtype)

    def gate(self, x: Tensor) -> Tensor:
        return self._kernels.gate(x)

    def rotate(self, x: Tensor, factors: tuple[Tensor, Tensor]) -> Tensor:
        self._kernels.rotate(x, *factors)
        return x


def choose_operations(kernels: Kernels | None, config: ModelConfig) -> Operations:
    """The kernels' operations where there are kernels and the model's sizes suit them, else PyTorch's."""
    sizes = config.hidden_size, config.intermediate_size, config.head_dim // 2
    if kernels is None or config.head_dim % 2 or any(size % _LANES for size in sizes):
        return TorchOperations()
    return KernelOperations(kernels)
