"""Linear layers that hold and multiply weights as the blocks in which a file or a setting has them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from readahead_serving.kernels.blocks import Bits, Blocks, stack
from readahead_serving.kernels.library import STEP, Kernels


class BlockLinear:
    """Weights one under the other, each in its own form.

    Every weight counts as it would rounded to bfloat16, and sums are those of `KernelLinear`: the results of both are
    the same to the bit, for any number of rows.

    Args:
        kernels: Multiply the blocks.
        weights: (out, in) each, of one `in` and of sizes that `fits`.
        bias: (all outs) or None.
    """

    dtype = torch.bfloat16

    def __init__(self, kernels: Kernels, weights: Sequence[Blocks], bias: Tensor | None) -> None:
        self._kernels = kernels
        self._parts = [kernels.pack_blocks(weight) for weight in stack(weights)]
        self._outputs = sum(part.outputs for part in self._parts)
        self._bias = None if bias is None else bias.float().contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        out = torch.empty(len(x), self._outputs, dtype=torch.bfloat16)
        at, x = 0, x.contiguous()
        for part in self._parts:
            among = slice(at, at + part.outputs)
            bias = None if self._bias is None else self._bias[among]
            self._kernels.multiply_blocks(x, part, bias, out[:, among])
            at += part.outputs
        return out

    def rows(self, ids: Tensor) -> Tensor:
        """Rows (T) of the only weight: (T, in) bfloat16."""
        (weight,) = self._parts
        return self._kernels.read_block_rows(weight, ids.contiguous())


class BlockFactory:
    """Makes layers of weights of few bits.

    Args:
        kernels: Multiply the blocks.
        bits: More than these are not taken.
    """

    def __init__(self, kernels: Kernels, bits: Bits) -> None:
        self._kernels = kernels
        self._bits = bits

    def takes(self, weight: Blocks) -> bool:
        return weight.bits <= self._bits and fits(weight.shape)

    def __call__(self, weights: Sequence[Blocks], bias: Tensor | None) -> BlockLinear:
        """A layer of weights that it takes, one under the other."""
        return BlockLinear(self._kernels, weights, bias)


def fits(shape: Sequence[int]) -> bool:
    """Whether the kernels take a weight of this shape."""
    return all(size % STEP == 0 for size in shape)
