"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864), in the half-split layout of Hugging Face weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from readahead_serving.model.config import ModelConfig, RopeScaling


def _default(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    return frequencies


def _linear(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    return frequencies / scaling.factor


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Stretches long waves, leaves short ones alone and blends between (Llama 3.1, `apply_scaling`)."""
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    turns = scaling.original_positions * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return torch.lerp(frequencies / scaling.factor, frequencies, kept)


def _yarn(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """YaRN (Peng et al. 2023, arXiv:2309.00071): as `_llama3`, but blended linearly over dimensions."""
    half = len(frequencies)
    # frequency i is theta^(-i / half), so that its logarithm is linear in i
    slope = -math.log(float(frequencies[1])) if half > 1 else 1.0

    def dimension(turns: float) -> float:
        return math.log(scaling.original_positions / (turns * 2 * math.pi)) / slope

    low, high = dimension(scaling.beta_fast), dimension(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * half - 1)
    stretched = ((torch.arange(half) - low) / ((high - low) or 0.001)).clamp(0, 1)
    return torch.lerp(frequencies, frequencies / scaling.factor, stretched)


_SCALINGS = {"default": _default, "linear": _linear, "llama3": _llama3, "yarn": _yarn}


class RotaryEmbedding:
    """Cosines and sines of every position, computed once in float32.

    Args:
        config: The model's.
        dtype: Of the tables.
        divisors: (head dim / 2), what each frequency is divided by, where a file carries the stretching in this form.
    """

    def __init__(self, config: ModelConfig, dtype: torch.dtype, divisors: Tensor | None = None) -> None:
        scaling = config.rope_scaling
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
        frequencies = _SCALINGS[scaling.kind](1.0 / (config.rope_theta**exponents), scaling)
        if divisors is not None:
            frequencies = frequencies / divisors
        angles = torch.outer(torch.arange(config.max_positions).float(), frequencies)
        self._cos = torch.cat((angles, angles), dim=-1).cos().mul_(scaling.attention_factor).to(dtype)
        self._sin = torch.cat((-angles, angles), dim=-1).sin().mul_(scaling.attention_factor).to(dtype)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The factors of (T) positions, each (T, 1, head dim), for `rotate`."""
        return self._cos[positions].unsqueeze(1), self._sin[positions].unsqueeze(1)


def rotate(x: Tensor, factors: tuple[Tensor, Tensor]) -> Tensor:
    """Turns (T, heads, head dim) by its positions. The sine's sign is in the table, so swapping halves is enough."""
    cos, sin = factors
    half = x.shape[-1] // 2
    swapped = torch.roll(x, half, dims=-1)
    return torch.addcmul(x * cos, swapped, sin)
