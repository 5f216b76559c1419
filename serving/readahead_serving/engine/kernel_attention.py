"""Attention of one step by the compiled kernel: all keys are read where they lie.

As in `BatchAttention`, what several sequences read, a pack or blocks of the cache, is attended once for all of them,
and the parts of each row are merged by log-sum-exp. What is decided here once a step, for all layers: which rows read
which run of keys, and how the work is cut into items for the threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from functools import partial

import numpy as np
import torch
from torch import Tensor

from readahead_serving.engine.attention import BatchAttention, common_blocks
from readahead_serving.engine.attention_work import TILE_QUERIES, Ints, Run, Work
from readahead_serving.engine.executor import AttentionFactory
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.scheduler.plan import Chunk
from readahead_serving.kernels.library import AttentionArgs, Kernels
from readahead_serving.model.config import ModelConfig

MAX_HEAD_DIM = 256
HEAD_DIM_STEP = 16


def choose_attention(kernels: Kernels | None, config: ModelConfig) -> AttentionFactory:
    """The kernel's attention where there are kernels and the model's heads suit it, else PyTorch's."""
    group = config.num_heads // config.num_kv_heads
    fits = config.head_dim % HEAD_DIM_STEP == 0 and config.head_dim <= MAX_HEAD_DIM and group <= TILE_QUERIES
    if kernels is None or not fits:
        return BatchAttention
    return partial(KernelAttention, kernels, config.num_heads)


class KernelAttention:
    """Implements `readahead_serving.model.attention.Attention` for the chunks of one step."""

    def __init__(self, kernels: Kernels, num_heads: int, storage: KVStorage, chunks: Seq[Chunk]) -> None:
        self._kernels = kernels
        self._storage = storage
        self._packs: list[PackKV] = []
        starts = np.cumsum([0, *(chunk.count for chunk in chunks)])
        rows = [np.arange(start, start + chunk.count) for start, chunk in zip(starts, chunks, strict=False)]
        runs = [*self._pack_runs(chunks, rows), *self._block_runs(chunks, rows)]
        work = Work.of(runs, int(starts[-1]), num_heads, storage.num_kv_heads, torch.get_num_threads())
        self._work, self._places, self._table = work, self._written(chunks), self._sources()  # the kernel reads them
        self._outputs = torch.empty(work.num_states, num_heads, storage.head_dim)
        self._sums = torch.empty(work.num_states, num_heads, 2)
        self._args = AttentionArgs(
            groups=work.groups.ctypes.data,
            pieces=work.pieces.ctypes.data,
            items=work.items.ctypes.data,
            readers=work.readers.ctypes.data,
            states=work.states.ctypes.data,
            written=self._places.ctypes.data,
            outputs=self._outputs.data_ptr(),
            sums=self._sums.data_ptr(),
            rows=len(self._places),
            num_items=len(work.items),
            heads=num_heads,
            kv_heads=storage.num_kv_heads,
            dim=storage.head_dim,
            cache_head_stride=storage.block_tokens * storage.head_dim,
            threads=work.threads,
        )

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        for tensor in (q, k, v):
            assert tensor.stride()[1:] == (self._storage.head_dim, 1), tensor.stride()
        out = torch.empty(q.shape, dtype=q.dtype)
        args = self._args
        args.queries, args.query_stride = q.data_ptr(), q.stride(0)
        args.new_keys, args.key_stride = k.data_ptr(), k.stride(0)
        args.new_values, args.value_stride = v.data_ptr(), v.stride(0)
        args.sources = self._table[layer].ctypes.data
        args.out = out.data_ptr()
        self._kernels.attend(q.dtype, args)
        return out

    def _written(self, chunks: Seq[Chunk]) -> Ints:
        """Where in a layer of the cache each row's first head goes, in numbers."""
        size, parts = self._storage.block_tokens, []
        for chunk in chunks:
            tokens = np.arange(chunk.start, chunk.end) - chunk.sequence.own_start
            first = int(tokens[0]) // size
            blocks = np.array(chunk.sequence.blocks[first : int(tokens[-1]) // size + 1])[tokens // size - first]
            parts.append((blocks * self._storage.num_kv_heads * size + tokens % size) * self._storage.head_dim)
        return np.concatenate(parts)

    def _sources(self) -> Ints:
        """(layers, sources, 4): addresses of keys, values and, of bytes, their scales; the cache's first."""
        held = [
            (self._storage.keys, self._storage.values, (), ()),
            *((kv.keys, kv.values, kv.key_scales, kv.value_scales) for kv in self._packs),
        ]
        table = [
            [[part[layer].data_ptr() if part else 0 for part in parts] for parts in held]
            for layer in range(self._storage.num_layers)
        ]
        return np.array(table, dtype=np.int64)

    def _pack_runs(self, chunks: Seq[Chunk], rows: list[Ints]) -> Iterator[Run]:
        readers: dict[tuple[int, int], list[int]] = defaultdict(list)
        packs: dict[int, PackKV] = {}
        for number, chunk in enumerate(chunks):
            if (reading := chunk.sequence.pack) is not None:
                packs[id(reading.pack.kv)] = reading.pack.kv
                readers[id(reading.pack.kv), reading.num_tokens].append(number)
        for (key, tokens), numbers in readers.items():
            self._packs.append(packs[key])
            taken = np.concatenate([rows[number] for number in numbers])
            whole = packs[key].num_tokens
            yield Run(len(self._packs), whole * self._storage.head_dim, whole, [0], taken, np.full(len(taken), tokens))

    def _block_runs(self, chunks: Seq[Chunk], rows: list[Ints]) -> Iterator[Run]:
        size = self._storage.block_tokens
        shared = common_blocks(chunks, size)
        for numbers, blocks in shared.items():
            taken = np.concatenate([rows[number] for number in numbers])
            yield self._run(blocks, taken, np.full(len(taken), len(blocks) * size))
        apart = {block for blocks in shared.values() for block in blocks}
        for chunk, own in zip(chunks, rows, strict=True):
            last = -(-(chunk.end - chunk.sequence.own_start) // size)
            blocks = [block for block in chunk.sequence.blocks[:last] if block not in apart]
            before = chunk.start - chunk.sequence.own_start - size * (last - len(blocks))
            yield self._run(blocks, own, np.arange(before + 1, before + chunk.count + 1))

    def _run(self, blocks: list[int], rows: Ints, visible: Ints) -> Run:
        stride = self._storage.block_tokens * self._storage.head_dim
        pieces = [block * self._storage.num_kv_heads * stride for block in blocks]
        return Run(0, stride, self._storage.block_tokens, pieces, rows, visible)
