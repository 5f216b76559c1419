"""GGUF's quantised tensors taken apart into numbers, scales and minimums, without converting them.

What each type's bytes mean is ggml's (ggml-quants.c); the values are those that the `gguf` package's dequantisation
gives, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from gguf import GGMLQuantizationType, quants

from readahead_serving.kernels.blocks import Bits, Blocks

_Bytes = npt.NDArray[np.uint8]
_Parts = tuple[npt.NDArray[np.int8], npt.NDArray[np.floating], npt.NDArray[np.floating] | None]
"""Of n of the type's own blocks: numbers (n, weights), scales and minimums (n, groups)."""


def read_blocks(rows: _Bytes, kind: GGMLQuantizationType) -> Blocks | None:
    """A tensor of a type that `Blocks` can express.

    Args:
        rows: (out, bytes of a row).
        kind: The tensor's type.

    Returns:
        None for other types.
    """
    if kind not in _TYPES:
        return None
    bits, nbytes, split = _TYPES[kind]
    numbers, scales, minimums = split(np.ascontiguousarray(rows).reshape(-1, nbytes))

    def tensor(values: npt.NDArray[np.generic]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).view(len(rows), -1)

    return Blocks(bits, tensor(numbers), tensor(scales), None if minimums is None else tensor(minimums))


def _halves(raw: _Bytes) -> npt.NDArray[np.float16]:
    return np.ascontiguousarray(raw).view(np.float16)


def _nibbles(raw: _Bytes, run: int) -> _Bytes:
    """(n, bytes) to (n, 2 × bytes): of each `run` bytes all lower halves, then all upper ones."""
    runs = raw.reshape(len(raw), -1, 1, run) >> np.array([0, 4], np.uint8).reshape(1, 1, 2, 1)
    return (runs & np.uint8(15)).reshape(len(raw), -1)


def _q4_0(raw: _Bytes) -> _Parts:
    return _nibbles(raw[:, 2:], 16).view(np.int8) - np.int8(8), _halves(raw[:, :2]), None


def _q4_1(raw: _Bytes) -> _Parts:
    return _nibbles(raw[:, 4:], 16).view(np.int8), _halves(raw[:, :2]), _halves(raw[:, 2:4])


def _fives(high: _Bytes, low: _Bytes) -> npt.NDArray[np.int8]:
    """Numbers of 5 bits, whose highest bits lie together."""
    bits = np.unpackbits(high, axis=1, bitorder="little")
    return (_nibbles(low, 16) | bits << np.uint8(4)).view(np.int8)


def _q5_0(raw: _Bytes) -> _Parts:
    return _fives(raw[:, 2:6], raw[:, 6:]) - np.int8(16), _halves(raw[:, :2]), None


def _q5_1(raw: _Bytes) -> _Parts:
    return _fives(raw[:, 4:8], raw[:, 8:]), _halves(raw[:, :2]), _halves(raw[:, 2:4])


def _q8_0(raw: _Bytes) -> _Parts:
    return raw[:, 2:].view(np.int8), _halves(raw[:, :2]), None


def _k_scales(raw: _Bytes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Scales and minimums of 8 groups, which are products of one for the whole block and 6 bits for the group."""
    whole = _halves(raw[:, :4]).astype(np.float32)
    scales, minimums = quants.Q4_K.get_scale_min(np.ascontiguousarray(raw[:, 4:16]))
    return whole[:, :1] * scales.astype(np.float32), -(whole[:, 1:] * minimums.astype(np.float32))


def _q4_k(raw: _Bytes) -> _Parts:
    return _nibbles(raw[:, 16:], 32).view(np.int8), *_k_scales(raw)


def _q5_k(raw: _Bytes) -> _Parts:
    # bit g of a byte belongs to group g
    bits = raw[:, None, 16:48] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1) & np.uint8(1)
    return (_nibbles(raw[:, 48:], 32) | bits.reshape(len(raw), -1) << np.uint8(4)).view(np.int8), *_k_scales(raw)


def _q6_k(raw: _Bytes) -> _Parts:
    low = _nibbles(raw[:, :128], 64)
    high = raw[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1)
    numbers = (low | (high & np.uint8(3)).reshape(len(raw), -1) << np.uint8(4)).view(np.int8) - np.int8(32)
    scales = np.ascontiguousarray(raw[:, 192:208]).view(np.int8).astype(np.float32)
    return numbers, scales * _halves(raw[:, 208:]).astype(np.float32), None


_TYPES: dict[GGMLQuantizationType, tuple[Bits, int, Callable[[_Bytes], _Parts]]] = {
    GGMLQuantizationType.Q4_0: (4, 18, _q4_0),
    GGMLQuantizationType.Q4_1: (4, 20, _q4_1),
    GGMLQuantizationType.Q5_0: (8, 22, _q5_0),
    GGMLQuantizationType.Q5_1: (8, 24, _q5_1),
    GGMLQuantizationType.Q8_0: (8, 34, _q8_0),
    GGMLQuantizationType.Q4_K: (4, 144, _q4_k),
    GGMLQuantizationType.Q5_K: (8, 176, _q5_k),
    GGMLQuantizationType.Q6_K: (8, 210, _q6_k),
}
"""Bits of a number as we hold it, bytes of a block of the type's own, and how these are taken apart."""
