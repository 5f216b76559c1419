"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864), in the half-split layout of Hugging Face weights."""

from __future__ import annotations

import torch
from torch import Tensor

from readahead_serving.model.config import ModelConfig, RopeScaling


def _default(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    return frequencies


def _linear(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    return frequencies / scaling.factor


_SCALINGS = {"default": _default, "linear": _linear}


class RotaryEmbedding:
    """Cosines and sines of every position, computed once in float32."""

    def __init__(self, config: ModelConfig, dtype: torch.dtype) -> None:
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
        frequencies = _SCALINGS[config.rope_scaling.kind](1.0 / (config.rope_theta**exponents), config.rope_scaling)
        angles = torch.outer(torch.arange(config.max_positions).float(), frequencies)
        self._cos = torch.cat((angles, angles), dim=-1).cos().to(dtype)
        self._sin = torch.cat((-angles, angles), dim=-1).sin().to(dtype)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The factors of (T) positions, each (T, 1, head dim), for `rotate`."""
        return self._cos[positions].unsqueeze(1), self._sin[positions].unsqueeze(1)


def rotate(x: Tensor, factors: tuple[Tensor, Tensor]) -> Tensor:
    """Turns (T, heads, head dim) by its positions. The sine's sign is in the table, so swapping halves is enough."""
    cos, sin = factors
    half = x.shape[-1] // 2
    swapped = torch.roll(x, half, dims=-1)
    return torch.addcmul(x * cos, swapped, sin)
