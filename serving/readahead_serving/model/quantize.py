"""Weights in 8 or 4 bits, and linear layers of them for machines without our kernels.

With the kernels only weights have few bits: numbers in groups of `GROUP` inputs with a scale, and with a minimum where
they have 4 bits (`quantize_blocks`). Without, as follows.

8 bits: each output row has one scale, and oneDNN multiplies bytes. Activations become two bytes as they come, the
second for what the first leaves over, and both go through one multiplication as rows of their own: some tokens, the
first above all, have a few values a thousand times the rest, and with a single byte SmolLM2's logits are 13% off, with
two 3%. No sum depends on another token's values, so a token's result is the same to the bit in every batch. (fbgemm's
`quantized.linear_dynamic` is faster up to some 16 tokens, but has one byte and one scale for the whole batch, and is
to be removed from PyTorch.)

4 bits: weights only, in groups of `GROUP` inputs with a scale and a zero of their own; fast for a few tokens, slow for
many. The weights of GGUF's Q4_0 and Q4_1 files, which have the same groups, lose next to nothing.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from readahead_serving.errors import ModelLoadError
from readahead_serving.kernels.blocks import Bits, Blocks
from readahead_serving.model.row_counts import pad_rows

GROUP = 32
"""Inputs that share a scale and a zero in 4-bit weights."""
_INT4_ROWS = 64
"""The 4-bit kernel works on this many outputs at a time."""
_FINER = 254
"""Steps of an activation's second byte in one step of its first."""
_TINY = 1e-8
"""Keeps the scale of a row of zeros from being zero."""
_TINY_HALF = 2.0**-24
"""The same for scales in float16, whose least number it is."""


class Int8Linear:
    """8-bit weights, dynamically quantised activations.

    Args:
        weight: (out, in), floating.
        bias: (out) or None.

    Raises:
        ModelLoadError: PyTorch has no such multiplication on this machine.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        quantised, self._scale = quantize_rows(weight, largest_weight())
        self._zeros = torch.zeros(len(quantised), dtype=torch.int32)
        self._packed = torch.ops.onednn.qlinear_prepack(quantised, None)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        y = _multiply(pad_rows(x), self._packed, self._scale, self._zeros)[: len(x)]
        return (y if self._bias is None else y.add_(self._bias)).to(x.dtype)


class Int4Linear:
    """4-bit weights.

    Args:
        weight: (out, in), floating, of a shape that `fits_int4`.
        bias: (out) or None.
        dtype: Of activations.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        quantised, self._scale_and_zero = quantize_groups(weight, dtype)
        self._packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(quantised, 1)
        self._bias = None if bias is None else bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
            x.contiguous(), self._packed, GROUP, self._scale_and_zero
        )
        return y if self._bias is None else y.add_(self._bias)


def fits_int4(weight: Tensor) -> bool:
    """Whether the 4-bit kernel takes a weight of this shape."""
    rows, columns = weight.shape
    return rows % _INT4_ROWS == 0 and columns % GROUP == 0


def quantize_rows(weight: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Scales each row to ±`largest`.

    Returns:
        (out, in) int8 and (out) float32, whose product is the weight.
    """
    weight = weight.float()
    scale = weight.abs().amax(-1).div_(largest).clamp_(min=_TINY)
    return (weight / scale.unsqueeze(-1)).round_().to(torch.int8), scale


def quantize_blocks(weight: Tensor, bits: Bits) -> Blocks:
    """Numbers of so many bits in groups of `GROUP` inputs: from -127 to 127 times a scale where they have 8, 0 to 15
    above the least weight where they have 4."""
    groups = weight.float().reshape(len(weight), -1, GROUP)
    if bits == 8:
        scales = groups.abs().amax(-1).div_(127).clamp_(min=_TINY_HALF).half()
        numbers = (groups / scales.float().unsqueeze(-1)).round_().clamp_(-127, 127)
        return Blocks(8, numbers.to(torch.int8).flatten(1), scales)
    least, greatest = groups.aminmax(dim=-1)
    minimums = least.half()
    # reckoned from what rounding makes of the least, so that the greatest is still reached
    scales = ((greatest - minimums.float()) / 15).clamp_(min=_TINY_HALF).half()
    steps = (groups - minimums.float().unsqueeze(-1)) / scales.float().unsqueeze(-1)
    return Blocks(4, steps.round_().clamp_(0, 15).to(torch.int8).flatten(1), scales, minimums)


def quantize_groups(weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Spreads 16 values between each group's least and greatest weight.

    Returns:
        (out, in) int32 in 0…15, and (in / GROUP, out, 2) in `dtype`: the step, and the value of 8.
    """
    groups = weight.float().reshape(len(weight), -1, GROUP)
    least, greatest = groups.aminmax(dim=-1, keepdim=True)
    # rounded as they are stored, so that the steps make good what rounding loses
    step = ((greatest - least) / 15).clamp_(min=_TINY).to(dtype)
    middle = (least + 8 * step.float()).to(dtype)
    steps = ((groups - middle.float()) / step.float()).round_().add_(8).clamp_(0, 15)
    return steps.flatten(-2).to(torch.int32), torch.cat((step, middle), dim=-1).transpose(0, 1).contiguous()


def _multiply(x: Tensor, packed: Tensor, scale: Tensor, zeros: Tensor) -> Tensor:
    """x (T, in) times packed 8-bit weights: (T, out) float32."""
    largest = torch.linalg.vector_norm(x, torch.inf, -1, keepdim=True, dtype=torch.float32).clamp_(min=_TINY)
    scaled = x * (127 / largest)
    coarse = scaled.round()
    fine = (scaled - coarse).mul_(_FINER).round_()
    # unsigned with a zero of 128: fast on AMX, AVX-512 VNNI and AVX2 VNNI, where signed bytes are fast on AMX only
    steps = torch.cat((coarse, fine)).add_(128).to(torch.uint8)
    y: Tensor = torch.ops.onednn.qlinear_pointwise(
        steps, 1.0, 128, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return torch.add(y[: len(x)], y[len(x) :], alpha=1 / _FINER).mul_(largest.mul_(1 / 127))


@cache
def largest_weight() -> int:
    """127, or 63 where the CPU's 16-bit sums of two products overflow (AVX2 without VNNI), which a product shows.

    Raises:
        ModelLoadError: There is no such multiplication here.
    """
    ones, weight = torch.ones(1, 64), torch.full((16, 64), 127, dtype=torch.int8)
    try:
        packed = torch.ops.onednn.qlinear_prepack(weight, None)
        y = _multiply(ones, packed, torch.ones(16), torch.zeros(16, dtype=torch.int32))
    except (RuntimeError, AttributeError) as error:
        raise ModelLoadError("8-bit weights cannot be multiplied on this machine: set weights to bf16.") from error
    return 127 if torch.allclose(y, torch.tensor(127.0 * 64), rtol=1e-4) else 63
