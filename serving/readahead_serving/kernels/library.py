"""A compiled library as Python sees it: tensors in, tensors out.

Pointers know no shapes, so each function asserts what the C++ side takes for granted; whether a model's shapes suit
the kernels at all is for their users to ask.
"""

from __future__ import annotations

import ctypes
from ctypes import c_float, c_int64, c_void_p
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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
