"""The keys and values of one immutable run of tokens, laid out for reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the API process reads this module, and PyTorch would cost it 200 MB
    import torch
    from torch import Tensor

KEY_GROUP = 64
"""Tokens whose keys have a scale for each channel together, where they are bytes; kTile of tiles.hpp."""


@dataclass(frozen=True, eq=False, slots=True)
class PackKV:
    """A run of tokens from position 0 on, with its keys and values contiguous per head and layer.

    Nobody ever writes to it, so that any number of sequences read it at once and its memory may be a mapped file.
    Keys and values are in the model's dtype, or bytes with scales: see `pack_bytes`.
    """

    token_ids: list[int]
    keys: Sequence[Tensor]
    """One per layer: (KV heads, tokens, head dim), contiguous, positions already applied."""
    values: Sequence[Tensor]
    """As `keys`."""
    key_scales: Sequence[Tensor] = ()
    """One per layer where keys are bytes, else none: (KV heads, groups of `KEY_GROUP` tokens, head dim) float32."""
    value_scales: Sequence[Tensor] = ()
    """One per layer where values are bytes, else none: (KV heads, tokens) float32."""

    def __post_init__(self) -> None:
        assert self.token_ids
        assert len(self.keys) == len(self.values)
        for tensor in (*self.keys, *self.values):
            assert tensor.shape == self.keys[0].shape, (tensor.shape, self.keys[0].shape)
            assert tensor.dtype == self.keys[0].dtype
            assert tensor.shape[1] == self.num_tokens, (tensor.shape, self.num_tokens)
        assert all(tensor.is_contiguous() for tensor in self.tensors())
        assert len(self.key_scales) == len(self.value_scales)
        if self.is_bytes:
            heads, tokens, dim = self.keys[0].shape
            assert all(scales.shape == (heads, -(-tokens // KEY_GROUP), dim) for scales in self.key_scales)
            assert all(scales.shape == (heads, tokens) for scales in self.value_scales)

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def is_bytes(self) -> bool:
        """Whether keys and values are bytes with scales."""
        return bool(self.key_scales)

    def tensors(self) -> list[Tensor]:
        """All there is, in the order of the file: layer by layer keys and values, each before its scales."""
        parts = (self.keys, self.key_scales, self.values, self.value_scales)
        return [tensor for layer in zip(*(part for part in parts if part), strict=True) for tensor in layer]

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values together, scales included."""
        return sum(tensor.nbytes for tensor in self.tensors())

    def beginning(self, layer: int, tokens: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Keys and values of the first tokens, each (KV heads, tokens, head dim).

        Args:
            layer: 0-based.
            tokens: How many.
            dtype: What bytes are turned to; what is in the model's dtype is a view, and stays as it is.
        """
        keys, values = self.keys[layer][:, :tokens], self.values[layer][:, :tokens]
        if not self.is_bytes:
            return keys, values
        scales = self.key_scales[layer].repeat_interleave(KEY_GROUP, 1)[:, :tokens]
        value_scales = self.value_scales[layer][:, :tokens].unsqueeze(-1)
        return (keys * scales).to(dtype), (values * value_scales).to(dtype)
