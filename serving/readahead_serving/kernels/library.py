"""A compiled library as Python sees it: tensors in, tensors out.

Pointers know no shapes, so each function asserts what the C++ side takes for granted; whether a model's shapes suit
the kernels at all is for their users to ask.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from readahead_serving.kernels.blocks import Blocks

_SUFFIXES = {torch.bfloat16: "bf16", torch.float32: "fp32"}
DTYPES = frozenset(_SUFFIXES)
STEP = 32
"""Both sizes of a packed weight are multiples of it."""


class AttentionArgs(ctypes.Structure):
    """`AttentionArgs` of attention.cpp, which says what each is."""

    _fields_ = (
        *((name, c_void_p) for name in ("queries", "new_keys", "new_values", "out", "sources", "written", "groups")),
        *((name, c_void_p) for name in ("pieces", "items", "readers", "states", "outputs", "sums")),
        *((name, c_int64) for name in ("query_stride", "key_stride", "value_stride")),
        *((name, c_int64) for name in ("rows", "num_items", "heads", "kv_heads", "dim", "cache_head_stride")),
        ("threads", c_int64),
    )


class BlockForm(ctypes.Structure):
    """`Form` of unpack.hpp, which says what each is."""

    _fields_ = tuple((name, c_int64) for name in ("bits", "group", "wide", "minimum"))

    @property
    def block_bytes(self) -> int:
        """Of 32 outputs by 32 inputs."""
        scales = STEP * (STEP // self.group) * (4 if self.wide else 2) * (2 if self.minimum else 1)
        return int(scales + STEP * STEP * self.bits // 8)


@dataclass(frozen=True)
class PackedBlocks:
    """`Blocks` in the order in which they are multiplied."""

    form: BlockForm
    outputs: int
    inputs: int
    packed: Tensor


class Kernels:
    """One loaded library. Everything but weights is in one of `DTYPES`."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))

        def function(name: str, *types: Any) -> Any:
            found = getattr(library, name)
            found.restype, found.argtypes = None, types
            return found

        def both(name: str, *types: Any) -> dict[torch.dtype, Any]:
            return {dtype: function(f"{name}_{suffix}", *types) for dtype, suffix in _SUFFIXES.items()}

        pointer, integer = c_void_p, c_int64
        self._attend = both("attend", ctypes.POINTER(AttentionArgs))
        self._normalize = both("normalize", *[pointer] * 4, integer, integer, c_float, integer)
        self._gate = both("gate", pointer, pointer, integer, integer, integer)
        self._rotate = both("rotate", pointer, integer, pointer, pointer, *[integer] * 4)
        self._pack = function("pack_weight", pointer, pointer, integer, integer)
        self._multiply = function("multiply_packed", *[pointer] * 4, *[integer] * 4)
        self._read_rows = function("read_packed_rows", *[pointer] * 3, *[integer] * 2)
        form = ctypes.POINTER(BlockForm)
        self._pack_blocks = function("pack_blocks", *[pointer] * 4, form, *[integer] * 3)
        self._multiply_blocks = function("multiply_blocks", pointer, pointer, form, pointer, pointer, *[integer] * 5)
        self._read_block_rows = function("read_block_rows", pointer, form, pointer, pointer, *[integer] * 3)

    def attend(self, dtype: torch.dtype, args: AttentionArgs) -> None:
        """Writes the new keys and values into the cache and attends; see attention.cpp."""
        self._attend[dtype](ctypes.byref(args))

    def add_and_normalize(
        self, hidden: Tensor, delta: Tensor | None, weight: Tensor, epsilon: float, dtype: torch.dtype
    ) -> Tensor:
        """Adds `delta` (T, n) to `hidden` (T, n) float32 in place; the RMS norm of that, times `weight`, in `dtype`."""
        assert hidden.is_contiguous() and hidden.dtype is weight.dtype is torch.float32
        assert delta is None or (delta.is_contiguous() and delta.dtype is dtype and delta.shape == hidden.shape)
        out = torch.empty(hidden.shape, dtype=dtype)
        added = None if delta is None else delta.data_ptr()
        rows, size = hidden.shape
        self._normalize[dtype](
            hidden.data_ptr(), added, weight.data_ptr(), out.data_ptr(), rows, size, epsilon, torch.get_num_threads()
        )
        return out

    def gate(self, x: Tensor) -> Tensor:
        """silu(left half) · right half of each row of `x` (T, 2n)."""
        assert x.is_contiguous()
        rows, size = x.shape[0], x.shape[1] // 2
        out = torch.empty(rows, size, dtype=x.dtype)
        self._gate[x.dtype](x.data_ptr(), out.data_ptr(), rows, size, torch.get_num_threads())
        return out

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> None:
        """Turns `x` (T, heads, D), whose heads are contiguous, in place by factors of (T, 1, D)."""
        rows, heads, dim = x.shape
        assert x.stride()[1:] == (dim, 1) and cos.is_contiguous() and sin.is_contiguous()
        assert cos.dtype is sin.dtype is x.dtype
        self._rotate[x.dtype](
            x.data_ptr(), x.stride(0), cos.data_ptr(), sin.data_ptr(), rows, heads, dim, torch.get_num_threads()
        )

    def pack(self, weight: Tensor) -> Tensor:
        """A bfloat16 weight (out, in) in the order in which `multiply` reads it; both sizes are multiples of `STEP`."""
        assert weight.is_contiguous() and weight.dtype is torch.bfloat16
        assert all(size % STEP == 0 for size in weight.shape), weight.shape
        packed = torch.empty_like(weight)
        self._pack(weight.data_ptr(), packed.data_ptr(), *weight.shape)
        return packed

    def multiply(self, x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
        """x (T, in) bfloat16 times a packed weight, plus a bias in float32: (T, out) bfloat16."""
        outputs, inputs = packed.shape
        assert x.is_contiguous() and x.shape[1] == inputs and x.dtype is torch.bfloat16
        assert bias is None or bias.dtype is torch.float32
        out = torch.empty(len(x), outputs, dtype=torch.bfloat16)
        added = None if bias is None else bias.data_ptr()
        self._multiply(
            x.data_ptr(), packed.data_ptr(), added, out.data_ptr(), len(x), outputs, inputs, torch.get_num_threads()
        )
        return out

    def read_rows(self, packed: Tensor, rows: Tensor) -> Tensor:
        """Rows (T) int64 of a packed weight: (T, in) bfloat16."""
        outputs, inputs = packed.shape
        _assert_rows(rows, outputs)
        out = torch.empty(len(rows), inputs, dtype=torch.bfloat16)
        self._read_rows(packed.data_ptr(), rows.data_ptr(), out.data_ptr(), len(rows), inputs)
        return out

    def pack_blocks(self, blocks: Blocks) -> PackedBlocks:
        """Both sizes of the weight are multiples of `STEP`."""
        (outputs, inputs), (bits, group, dtype, minimum) = blocks.shape, blocks.form
        assert outputs % STEP == inputs % STEP == 0 and group in (16, 32), (outputs, inputs, group)
        form = BlockForm(bits, group, dtype is torch.float32, minimum)
        tensors = [blocks.numbers, blocks.scales, *([] if blocks.minimums is None else [blocks.minimums])]
        held = [tensor.contiguous() for tensor in tensors]
        numbers, scales, minimums = (*(tensor.data_ptr() for tensor in held), None)[:3]
        packed = torch.empty(outputs * inputs // STEP**2 * form.block_bytes, dtype=torch.uint8)
        threads = torch.get_num_threads()
        self._pack_blocks(numbers, scales, minimums, packed.data_ptr(), form, outputs, inputs, threads)
        return PackedBlocks(form, outputs, inputs, packed)

    def multiply_blocks(self, x: Tensor, weight: PackedBlocks, bias: Tensor | None, out: Tensor) -> None:
        """Writes x (T, in) bfloat16 times a weight, plus a bias in float32, to `out` (T, out) bfloat16, whose rows may
        be parts of longer ones."""
        assert x.is_contiguous() and x.shape[1] == weight.inputs and x.dtype is out.dtype is torch.bfloat16
        assert out.shape == (len(x), weight.outputs) and out.stride(1) == 1
        assert bias is None or (bias.dtype is torch.float32 and bias.is_contiguous())
        added = None if bias is None else bias.data_ptr()
        sizes = len(x), weight.outputs, weight.inputs, out.stride(0), torch.get_num_threads()
        self._multiply_blocks(x.data_ptr(), weight.packed.data_ptr(), weight.form, added, out.data_ptr(), *sizes)

    def read_block_rows(self, weight: PackedBlocks, rows: Tensor) -> Tensor:
        """Rows (T) int64 of a weight: (T, in) bfloat16."""
        _assert_rows(rows, weight.outputs)
        out = torch.empty(len(rows), weight.inputs, dtype=torch.bfloat16)
        sizes = len(rows), weight.inputs, torch.get_num_threads()
        self._read_block_rows(weight.packed.data_ptr(), weight.form, rows.data_ptr(), out.data_ptr(), *sizes)
        return out


def _assert_rows(rows: Tensor, outputs: int) -> None:
    assert rows.dtype is torch.int64 and rows.is_contiguous()
    assert not len(rows) or (int(rows.min()) >= 0 and int(rows.max()) < outputs)
