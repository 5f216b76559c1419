"""Attention of an embedding model's batch, in which each token reads its whole text and no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from readahead_serving.engine.attention_work import Run, Work
from readahead_serving.engine.kernel_attention import HEAD_DIM_STEP, MAX_HEAD_DIM
from readahead_serving.kernels.library import AttentionArgs, Kernels


class Texts(NamedTuple):
    """Texts of one length, side by side."""

    start: int
    """Row of the first token."""
    texts: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.texts * self.length


class Attend(Protocol):
    """For the layers of one batch, one after the other."""

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """(rows, heads, dim) each, parts of one matrix; returns (rows, heads · dim). Rows behind the last text's mean
        nothing, and are finite."""
        ...


Attention = Callable[[Sequence[Texts], int, int, torch.dtype], Attend]
"""From a batch's texts, heads, numbers in each head, and dtype."""


class TorchAttention:
    """By PyTorch, texts of one length at a time, which need no mask."""

    def __init__(self, runs: Sequence[Texts], heads: int, dim: int, dtype: torch.dtype) -> None:
        self._runs = runs

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        out = torch.zeros(len(queries), queries.shape[1] * queries.shape[2], dtype=queries.dtype)
        for run in self._runs:
            query, key, value = (
                part[run.start : run.end].view(run.texts, run.length, *part.shape[1:]).transpose(1, 2)
                for part in (queries, keys, values)
            )
            found = F.scaled_dot_product_attention(query, key, value)
            out[run.start : run.end] = found.transpose(1, 2).reshape(run.end - run.start, -1)
        return out


def choose_attention(kernels: Kernels | None, dim: int) -> Attention:
    """The compiled kernel's where there is one and heads of `dim` numbers suit it."""
    if kernels is None or dim % HEAD_DIM_STEP or dim > MAX_HEAD_DIM:
        return TorchAttention
    return lambda runs, heads, dim, dtype: KernelAttention(kernels, runs, heads, dim, dtype)


class KernelAttention:
    """By the kernel of the engine, which attends causally because a row is shown what stands before it: here each is
    shown its whole text."""

    def __init__(self, kernels: Kernels, runs: Sequence[Texts], heads: int, dim: int, dtype: torch.dtype) -> None:
        self._kernels = kernels
        lengths = np.repeat([run.length for run in runs], [run.texts for run in runs])
        longest = int(lengths.max())
        shape = (len(lengths), heads, longest, dim)
        self._keys, self._values = torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)
        starts = np.cumsum([0, *lengths])
        step = heads * longest * dim
        read = [
            Run(0, longest * dim, longest, [index * step], np.arange(start, start + length), np.full(length, length))
            for index, (start, length) in enumerate(zip(starts, lengths, strict=False))
        ]
        rows = int(starts[-1])
        places = np.repeat(np.arange(len(lengths)) * step - starts[:-1] * dim, lengths) + np.arange(rows) * dim
        work = Work.of(read, rows, heads, heads, torch.get_num_threads())
        sources = np.array([[self._keys.data_ptr(), self._values.data_ptr(), 0, 0]], dtype=np.int64)
        outputs, sums = torch.empty(work.num_states, heads, dim), torch.empty(work.num_states, heads, 2)
        self._held = (work, places, sources, outputs, sums)  # the kernel reads and writes them
        self._args = AttentionArgs(
            groups=work.groups.ctypes.data,
            pieces=work.pieces.ctypes.data,
            items=work.items.ctypes.data,
            readers=work.readers.ctypes.data,
            states=work.states.ctypes.data,
            written=places.ctypes.data,
            sources=sources.ctypes.data,
            outputs=outputs.data_ptr(),
            sums=sums.data_ptr(),
            rows=rows,
            num_items=len(work.items),
            heads=heads,
            kv_heads=heads,
            dim=dim,
            cache_head_stride=longest * dim,
            threads=work.threads,
        )

    def __call__(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        for tensor in (queries, keys, values):
            assert tensor.stride()[1:] == (tensor.shape[2], 1), tensor.stride()
        out = torch.zeros(len(queries), queries.shape[1] * queries.shape[2], dtype=queries.dtype)
        args = self._args
        args.queries, args.query_stride = queries.data_ptr(), queries.stride(0)
        args.new_keys, args.key_stride = keys.data_ptr(), keys.stride(0)
        args.new_values, args.value_stride = values.data_ptr(), values.stride(0)
        args.out = out.data_ptr()
        self._kernels.attend(queries.dtype, args)
        return out
