"""Reads a GGUF file: its metadata at once, its tensors on demand from the mapped file.

The layout is ggml's (docs/gguf.md in its repository), versions 2 and 3, little-endian. Dequantisation is the `gguf`
package's. Its reader is not used: it takes over a second to walk a vocabulary of 49,152 tokens, and it does not say
which file is truncated.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

from readahead_serving.errors import ModelLoadError

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_DIMENSIONS = 4


@dataclass(frozen=True)
class _TensorInfo:
    shape: tuple[int, ...]
    """Row-major, outermost first: the reverse of the file's order."""
    kind: GGMLQuantizationType
    start: int
    """Byte offset in the file."""
    nbytes: int


class _Cursor:
    """Reads forward through bytes; running past the end is `struct.error` or `ValueError`."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    def scalar(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._data, self.at)
        self.at += struct.calcsize(f"<{code}")
        return value

    def string(self) -> str:
        length = self.scalar("Q")
        end = self.at + length
        if end > len(self._data):
            raise ValueError("a string runs past the end")
        text = str(self._data[self.at : end], "utf-8", "replace")
        self.at = end
        return text

    def value(self) -> Any:
        kind = self.scalar("I")
        return self._array() if kind == _ARRAY else self._plain(kind)

    def _plain(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind not in _SCALARS:
            raise ValueError(f"metadata of type {kind}")
        return self.scalar(_SCALARS[kind])

    def _array(self) -> list[Any]:
        kind, length = self.scalar("I"), self.scalar("Q")
        if kind == _STRING:
            return [self.string() for _ in range(length)]
        if kind not in _SCALARS:
            raise ValueError(f"an array of type {kind}")
        code = f"<{length}{_SCALARS[kind]}"
        values = list(struct.unpack_from(code, self._data, self.at))
        self.at += struct.calcsize(code)
        return values


class GGUFFile:
    """One GGUF file, its tensors under the file's own names. PyTorch is not needed to read it.

    Raises:
        ModelLoadError: The file is missing, truncated or not GGUF.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self._tensors: dict[str, _TensorInfo] = {}
        try:
            self._map = np.memmap(path, mode="r", dtype=np.uint8)
            self._read(_Cursor(self._map.data))
        except OSError as error:
            raise ModelLoadError(f"Cannot read {path}: {error.strerror or error}.") from error
        except (struct.error, ValueError, OverflowError, MemoryError) as error:
            raise ModelLoadError(f"{path} is not a whole GGUF file ({error}): download it again.") from error

    def names(self) -> frozenset[str]:
        return frozenset(self._tensors)

    def stored(self, name: str) -> tuple[npt.NDArray[np.uint8], GGMLQuantizationType]:
        """One tensor as the file has it: the bytes of its rows, and what they mean."""
        info = self._tensors[name]
        raw = self._map[info.start : info.start + info.nbytes]
        return raw.reshape(*info.shape[:-1], info.nbytes // math.prod(info.shape[:-1])), info.kind

    def read(self, name: str) -> npt.NDArray[np.float32]:
        """One tensor, dequantised."""
        rows, kind = self.stored(name)
        try:
            with np.errstate(all="ignore"):  # a damaged scale, which is for the engine's warm-up to notice
                values = quants.dequantize(rows, kind)
        except NotImplementedError as error:
            raise ModelLoadError(f"{self.path}: {name} is stored as {kind.name}, which is not read.") from error
        shape = self._tensors[name].shape
        assert values.size == math.prod(shape), (name, values.shape, shape)
        return np.array(values, dtype=np.float32).reshape(shape)

    def _read(self, cursor: _Cursor) -> None:
        if bytes(self._map[:4]) != MAGIC:
            raise ValueError("it does not begin with GGUF")
        cursor.at = len(MAGIC)
        version = cursor.scalar("I")
        if version not in _VERSIONS:
            raise ValueError(f"version {version}")
        tensor_count, value_count = cursor.scalar("Q"), cursor.scalar("Q")
        for _ in range(value_count):
            key = cursor.string()
            self.metadata[key] = cursor.value()
        infos = [self._tensor_info(cursor) for _ in range(tensor_count)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"alignment {alignment!r}")
        base = -(-cursor.at // alignment) * alignment
        for name, info in infos:
            self._tensors[name] = placed = _TensorInfo(info.shape, info.kind, base + info.start, info.nbytes)
            if placed.start + placed.nbytes > self._map.size:
                raise ValueError(f"{name} runs past the end")

    @staticmethod
    def _tensor_info(cursor: _Cursor) -> tuple[str, _TensorInfo]:
        name = cursor.string()
        dimensions = cursor.scalar("I")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise ValueError(f"{name} has {dimensions} dimensions")
        shape = tuple(reversed([cursor.scalar("Q") for _ in range(dimensions)]))
        kind = GGMLQuantizationType(cursor.scalar("I"))
        block, block_bytes = GGML_QUANT_SIZES[kind]
        if not all(shape) or shape[-1] % block:
            raise ValueError(f"{name} has the shape {shape}")
        nbytes = math.prod(shape) // block * block_bytes
        return name, _TensorInfo(shape, kind, cursor.scalar("Q"), nbytes)
