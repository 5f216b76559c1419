"""The linear layers' seam: how a weight matrix is held and multiplied is decided once, at load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from readahead_serving.kernels.blocks import Bits
from readahead_serving.kernels.library import Kernels
from readahead_serving.model.block_linear import BlockFactory, fits
from readahead_serving.model.quantize import Int4Linear, Int8Linear, fits_int4, largest_weight, quantize_blocks
from readahead_serving.model.row_counts import pad_rows


class Linear(Protocol):
    """y = x Wᵀ + b. `x` is (T, in), contiguous, in the model's dtype; the result is (T, out) in the same."""

    def __call__(self, x: Tensor) -> Tensor: ...


LinearFactory = Callable[[Tensor, Tensor | None], Linear]
"""Takes a weight (out, in) and a bias (out) or None."""

Weights = Literal["auto", "fp32", "bf16", "int8", "int4"]
"""How weights are stored; "auto" stores them as the file does where that changes no result, else as the model's dtype
says."""


@dataclass(frozen=True)
class LinearForms:
    """How a model's linear layers are held."""

    layers: LinearFactory
    head: LinearFactory
    """For the output layer."""
    cast: torch.dtype | None = None
    """What factories want their tensors in; None takes them as the files have them."""
    blocks: BlockFactory | None = None
    """What keeps weights in the blocks that a file has them in, where anything does."""
    head_blocks: BlockFactory | None = None
    """The same for both ends of the vocabulary."""


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
        y: Tensor = torch.ops.mkldnn._linear_pointwise(pad_rows(x), self._packed, self._bias, "none", [], "")
        return y[: len(x)]


class KernelLinear:
    """The bf16 weight in the order in which our own kernel reads it, for any number of rows.

    A row's result is the same to the bit whatever rows are beside it.
    """

    dtype = torch.bfloat16

    def __init__(self, kernels: Kernels, weight: Tensor, bias: Tensor | None) -> None:
        self._kernels = kernels
        self._packed = kernels.pack(weight.contiguous())
        self._bias = None if bias is None else bias.float()

    def __call__(self, x: Tensor) -> Tensor:
        return self._kernels.multiply(x.contiguous(), self._packed, self._bias)

    def rows(self, ids: Tensor) -> Tensor:
        """Rows (T) of the weight: (T, in)."""
        return self._kernels.read_rows(self._packed, ids.contiguous())


class CastLinear:
    """Another linear layer, computed in a dtype that is not the activations'."""

    def __init__(self, inner: Linear, dtype: torch.dtype) -> None:
        self._inner = inner
        self._dtype = dtype

    def __call__(self, x: Tensor) -> Tensor:
        return self._inner(x.to(self._dtype)).to(x.dtype)


def choose_forms(dtype: torch.dtype, weights: Weights = "auto", kernels: Kernels | None = None) -> LinearForms:
    """The fastest form of the wanted precision on this machine.

    Args:
        dtype: Of activations.
        weights: 4-bit weights keep an output layer of 8 bits, to which most of what they would lose is owed.
        kernels: Our own, where there are any.

    Raises:
        ModelLoadError: This machine can't multiply such weights.
    """
    return _FORMS[weights](dtype, kernels)


def _floating(stored: torch.dtype, dtype: torch.dtype, kernels: Kernels | None) -> LinearForms:
    factory = _packing(kernels) if stored is torch.bfloat16 else PlainLinear
    if stored is dtype:
        return LinearForms(factory, factory, stored)

    def cast(weight: Tensor, bias: Tensor | None) -> Linear:
        return CastLinear(factory(weight, bias), stored)

    return LinearForms(cast, cast, stored)


def _packing(kernels: Kernels | None) -> LinearFactory:
    # packed where the CPU multiplies bf16 itself (AMX or AVX-512): elsewhere packing fails or slows down
    multiplies_bf16 = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    fallback: LinearFactory = PackedLinear if multiplies_bf16 else PlainLinear
    if kernels is None:
        return fallback

    def pack(weight: Tensor, bias: Tensor | None) -> Linear:
        return KernelLinear(kernels, weight, bias) if fits(weight.shape) else fallback(weight, bias)

    return pack


def _as_stored(dtype: torch.dtype, kernels: Kernels | None) -> LinearForms:
    forms = _floating(dtype, dtype, kernels)
    if kernels is None or dtype is not torch.bfloat16:
        return forms
    blocks = BlockFactory(kernels, 8)
    return replace(forms, blocks=blocks, head_blocks=blocks)


def _int8(dtype: torch.dtype, kernels: Kernels | None) -> LinearForms:
    if kernels is None or dtype is not torch.bfloat16:
        largest_weight()  # refuses machines that can't, before anything is read
        return LinearForms(Int8Linear, Int8Linear)
    layer, blocks = _quantizing(kernels, 8)
    return LinearForms(layer, layer, blocks=blocks, head_blocks=blocks)


def _int4(dtype: torch.dtype, kernels: Kernels | None) -> LinearForms:
    if kernels is None or dtype is not torch.bfloat16:
        largest_weight()
        return LinearForms(partial(_int4_layer, dtype), Int8Linear)
    (layer, blocks), (head, head_blocks) = _quantizing(kernels, 4), _quantizing(kernels, 8)
    return LinearForms(layer, head, blocks=blocks, head_blocks=head_blocks)


def _int4_layer(dtype: torch.dtype, weight: Tensor, bias: Tensor | None) -> Linear:
    return Int4Linear(weight, bias, dtype) if fits_int4(weight) else Int8Linear(weight, bias)


def _quantizing(kernels: Kernels, bits: Bits) -> tuple[LinearFactory, BlockFactory]:
    blocks = BlockFactory(kernels, bits)

    def layer(weight: Tensor, bias: Tensor | None) -> Linear:
        return blocks([quantize_blocks(weight, bits)], bias) if fits(weight.shape) else Int8Linear(weight, bias)

    return layer, blocks


_FORMS: dict[Weights, Callable[[torch.dtype, Kernels | None], LinearForms]] = {
    "auto": _as_stored,
    "fp32": partial(_floating, torch.float32),
    "bf16": partial(_floating, torch.bfloat16),
    "int8": _int8,
    "int4": _int4,
}
