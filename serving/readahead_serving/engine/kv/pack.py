"""The keys and values of one immutable run of tokens, laid out for reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the API process reads this module, and PyTorch would cost it 200 MB
    from torch import Tensor


@dataclass(frozen=True, eq=False, slots=True)
class PackKV:
    """A run of tokens from position 0 on, with its keys and values contiguous per head and layer.

    Nobody ever writes to it, so that any number of sequences read it at once and its memory may be a mapped file.
    """

    token_ids: list[int]
    keys: Sequence[Tensor]
    """One per layer: (KV heads, tokens, head dim), contiguous, positions already applied."""
    values: Sequence[Tensor]
    """As `keys`."""

    def __post_init__(self) -> None:
        assert self.token_ids
        assert len(self.keys) == len(self.values)
        for tensor in (*self.keys, *self.values):
            assert tensor.shape == self.keys[0].shape, (tensor.shape, self.keys[0].shape)
            assert tensor.dtype == self.keys[0].dtype
            assert tensor.shape[1] == self.num_tokens, (tensor.shape, self.num_tokens)
            assert tensor.is_contiguous()

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values together."""
        return sum(tensor.nbytes for tensor in (*self.keys, *self.values))
