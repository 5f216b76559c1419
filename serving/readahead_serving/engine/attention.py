"""Attention of one step over packs and the paged KV cache.

Every query attends to one or more stretches of keys, each giving an output and the log-sum-exp of its scores, and the
parts are merged exactly ("attention states", FlashInfer, https://flashinfer.ai/2024/02/02/cascade-inference.html):
a pack, blocks that several sequences read, and blocks of its own. What several read is attended once for all of them.
Two facts about PyTorch's CPU flash kernel shape the code: its causal mask is aligned at the top left, so that a prefix
takes a call of its own without a mask; and it gives 0, not minus infinity, as the log-sum-exp of a row that sees no
key, so that such rows must be kept out of a merge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor

from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.scheduler.plan import Chunk
from readahead_serving.engine.shared_attention import State, attend_blocks, attend_run, flash, merge

IN_PLACE_SHARE = 0.5
"""Blocks are read in place when at least this share of the stretch they span belongs to the batch, else copied
together; measured, the copy costs 30-60% of the attention itself."""
MIN_SAVED_READS = 3
"""Blocks that several sequences read are attended once for all of them where that saves so many readings of a block;
below, the call and the merge that it takes cost as much. Measured with scripts/measure_shared_attention.py: see
docs/benchmarks.md."""


def merge_scattered(out: Tensor, lse: Tensor, owner: Tensor, rows: int) -> Tensor:
    """Merges any number of attention states for each row.

    Args:
        out: (N, …, D), the states' outputs.
        lse: (N, …) float32, their natural log-sum-exps.
        owner: (N,) int64, the row of each state; `rows` itself discards the state.
        rows: Number of rows; each owns at least one state.

    Returns:
        (rows, …, D) in out's dtype.
    """
    index = owner.view(-1, *(1,) * (lse.dim() - 1)).expand_as(lse)
    top = lse.new_full((rows + 1, *lse.shape[1:]), float("-inf")).scatter_reduce_(0, index, lse, "amax")
    weight = torch.exp(lse - top.index_select(0, owner))
    total = weight.new_zeros(top.shape).index_add_(0, owner, weight)
    summed = weight.new_zeros((rows + 1, *out.shape[1:])).index_add_(0, owner, out * weight.unsqueeze(-1))
    return (summed[:rows] / total[:rows].unsqueeze(-1)).to(out.dtype)


@dataclass(frozen=True, slots=True)
class _Held:
    """A block that a sequence with one new token sees."""

    row: int
    block: int
    tokens: int
    """Of the block's tokens, how many it sees."""


def _held(chunks: Seq[Chunk], block_tokens: int) -> list[_Held]:
    return [
        _Held(row, block, min(block_tokens, end - place * block_tokens))
        for row, chunk in enumerate(chunks)
        for end in (chunk.end - chunk.sequence.own_start,)
        for place, block in enumerate(chunk.sequence.blocks)
        if place * block_tokens < end
    ]


@dataclass(frozen=True, slots=True)
class _SharedBlocks:
    """Full blocks that the same rows read."""

    rows: Tensor
    """(R,) int64."""
    blocks: Tensor
    """(N,) int64."""

    @classmethod
    def split(cls, held: list[_Held]) -> tuple[list[_SharedBlocks], list[_Held]]:
        """Takes out the blocks that it pays to read once for all their readers."""
        readers: dict[int, list[int]] = defaultdict(list)
        for one in held:
            readers[one.block].append(one.row)
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for block, rows in readers.items():
            groups[tuple(rows)].append(block)
        paying = {rows: blocks for rows, blocks in groups.items() if _pays(len(rows), len(blocks))}
        taken = {block for blocks in paying.values() for block in blocks}
        shared = [cls(torch.tensor(rows), torch.tensor(blocks)) for rows, blocks in paying.items()]
        return shared, [one for one in held if one.block not in taken]


@dataclass(frozen=True, slots=True)
class _OwnBlocks:
    """Blocks read for one row each, all in a single call."""

    blocks: slice | Tensor
    """The cache's blocks to read: a stretch in place, or (N,) int64 to copy."""
    owner: Tensor
    """(N,) int64: the row of each block; the number of rows for a block of nobody's."""
    mask: Tensor
    """(N, 1, 1, block tokens): 0 where the owner may look, minus infinity elsewhere."""

    @classmethod
    def of(cls, held: list[_Held], rows: int, block_tokens: int, dtype: torch.dtype) -> _OwnBlocks:
        ids = torch.tensor([one.block for one in held])
        low, high = int(ids.min()), int(ids.max()) + 1
        blocks: slice | Tensor = ids
        if len(held) >= IN_PLACE_SHARE * (high - low) and len(set(ids.tolist())) == len(held):
            blocks = slice(low, high)
            place, size = ids - low, high - low
        else:
            place, size = torch.arange(len(held)), len(held)
        owner = torch.full((size,), rows).index_copy_(0, place, torch.tensor([one.row for one in held]))
        visible = torch.zeros(size, dtype=torch.long)
        visible.index_copy_(0, place, torch.tensor([one.tokens for one in held]))
        hidden = torch.arange(block_tokens) >= visible.unsqueeze(1)
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
        return cls(blocks, owner, mask.view(size, 1, 1, block_tokens))


@dataclass(frozen=True, slots=True)
class _Span:
    """A sequence that computes several tokens: its rows of the step, and where its earlier tokens lie."""

    rows: slice
    prefix: Tensor | None
    """(KV heads, P) int64 rows of the cache; None without earlier tokens in it."""


@dataclass(frozen=True, slots=True)
class _Readers:
    """A run of keys and the rows of the step that see all of it."""

    run: Callable[[int], tuple[Tensor, Tensor]]
    """Of a layer: its keys and values, each (KV heads, tokens, head dim)."""
    rows: Tensor
    """(R,) int64, ascending."""
    num_singles: int
    """The first of them, which compute one token each."""


class BatchAttention:
    """Implements `readahead_serving.model.attention.Attention` for the chunks of one step.

    Chunks of a single token come first.
    """

    def __init__(self, storage: KVStorage, chunks: Seq[Chunk]) -> None:
        self._storage = storage
        singles = [chunk for chunk in chunks if chunk.count == 1]
        assert list(chunks[: len(singles)]) == singles, "chunks of one token come first"
        self._num_singles = len(singles)
        self._shared, held = _SharedBlocks.split(_held(singles, storage.block_tokens))
        dtype = storage.keys[0].dtype
        self._own = _OwnBlocks.of(held, len(singles), storage.block_tokens, dtype) if held else None
        longer = chunks[len(singles) :]
        starts = list(accumulate((chunk.count for chunk in longer), initial=len(singles)))
        rows = [slice(start, start + chunk.count) for start, chunk in zip(starts, longer, strict=False)]
        common = common_blocks(longer, storage.block_tokens)
        taken = {block for blocks in common.values() for block in blocks}
        self._spans = [_Span(span, self._prefix(chunk, taken)) for span, chunk in zip(rows, longer, strict=True)]
        self._read = [*_pack_readers(chunks, dtype), *self._block_readers(common, rows)]
        self._written = torch.cat([self._rows(chunk, chunk.start, chunk.end) for chunk in chunks]).reshape(-1)

    def _rows(self, chunk: Chunk, start: int, end: int) -> Tensor:
        places = torch.arange(start, end) - chunk.sequence.own_start
        blocks = torch.tensor(chunk.sequence.blocks)[places // self._storage.block_tokens]
        return self._storage.token_rows(blocks, places % self._storage.block_tokens)

    def _prefix(self, chunk: Chunk, taken: Container[int]) -> Tensor | None:
        """Rows of the tokens in the cache before a chunk, but those of the blocks `taken`."""
        sequence, size = chunk.sequence, self._storage.block_tokens
        before = chunk.start - sequence.own_start
        blocks = [block for block in sequence.blocks[: -(-before // size)] if block not in taken]
        left = before - size * (-(-before // size) - len(blocks))
        if left <= 0:
            return None
        places = torch.arange(left)
        return self._storage.token_rows(torch.tensor(blocks)[places // size], places % size).t().contiguous()

    def _block_readers(self, common: dict[tuple[int, ...], list[int]], spans: list[slice]) -> Iterator[_Readers]:
        size = self._storage.block_tokens
        for readers, blocks in common.items():
            places = torch.arange(size * len(blocks))
            cached = self._storage.token_rows(torch.tensor(blocks)[places // size], places % size).t().contiguous()
            rows = torch.cat([torch.arange(spans[one].start, spans[one].stop) for one in readers])
            yield _Readers(partial(self._storage.gather, rows=cached), rows, 0)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self._storage.write(layer, self._written, k, v)
        # The queries that share a KV head are rows of one problem, so that each key is read once for all of them.
        folded = q.reshape(len(q), self._storage.num_kv_heads, -1, self._storage.head_dim)
        packs = [(reading, self._attend_shared(reading, layer, folded)) for reading in self._read]
        parts = []
        if self._num_singles:
            parts.append(self._attend_singles(layer, folded[: self._num_singles], packs).reshape(-1, *q.shape[1:]))
        parts.extend(self._attend_span(span, layer, q, k, v, packs) for span in self._spans)
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _attend_shared(self, reading: _Readers, layer: int, folded: Tensor) -> State:
        state = attend_run(_stack(folded[reading.rows]), *reading.run(layer))
        return _unstack(state, len(reading.rows))

    def _attend_singles(self, layer: int, folded: Tensor, packs: list[tuple[_Readers, State]]) -> Tensor:
        keys, values = self._storage.keys[layer], self._storage.values[layer]
        states, owners = [], []
        if (own := self._own) is not None:
            queries = folded.index_select(0, own.owner.clamp(max=len(folded) - 1))
            states.append(flash(queries, keys[own.blocks], values[own.blocks], mask=own.mask))
            owners.append(own.owner)
        for shared in self._shared:
            state = attend_blocks(_stack(folded[shared.rows]), keys[shared.blocks], values[shared.blocks])
            states.append(_unstack(state, len(shared.rows)))
            owners.append(shared.rows)
        for reading, (out, lse) in packs:
            count = reading.num_singles
            states.append((out[:count], lse[:count]))
            owners.append(reading.rows[:count])
        outs, lses = (torch.cat(tensors) for tensors in zip(*states, strict=True))
        return merge_scattered(outs, lses, torch.cat(owners), len(folded))

    def _attend_span(
        self, span: _Span, layer: int, q: Tensor, k: Tensor, v: Tensor, packs: list[tuple[_Readers, State]]
    ) -> Tensor:
        queries, keys, values = (x[span.rows].transpose(0, 1).unsqueeze(0) for x in (q, k, v))
        states = [flash(queries, keys, values, causal=True)]
        if span.prefix is not None:
            states.append(flash(queries, *(x.unsqueeze(0) for x in self._storage.gather(layer, span.prefix))))
        for reading, (out, lse) in packs:
            low, high = torch.searchsorted(reading.rows, torch.tensor([span.rows.start, span.rows.stop])).tolist()
            if low < high:
                # (L, KV heads, group, D) is (L, heads, D)
                states.append(
                    (out[low:high].flatten(1, 2).transpose(0, 1)[None], lse[low:high].flatten(1, 2).t()[None])
                )
        return merge(states)[0].squeeze(0).transpose(0, 1)


def common_blocks(chunks: Seq[Chunk], block_tokens: int) -> dict[tuple[int, ...], list[int]]:
    """Full blocks that several chunks have before them, where it pays to fetch them once, by the chunks' numbers.

    Questions that come together share a history or retrieved passages as they share a pack.
    """
    readers: dict[int, list[int]] = defaultdict(list)
    for number, chunk in enumerate(chunks):
        for block in chunk.sequence.blocks[: (chunk.start - chunk.sequence.own_start) // block_tokens]:
            readers[block].append(number)
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for block, numbers in readers.items():
        groups[tuple(numbers)].append(block)
    return {numbers: blocks for numbers, blocks in groups.items() if _pays(len(numbers), len(blocks))}


def _pays(readers: int, blocks: int) -> bool:
    return (readers - 1) * blocks >= MIN_SAVED_READS


def _pack_readers(chunks: Seq[Chunk], dtype: torch.dtype) -> list[_Readers]:
    rows: dict[tuple[int, int], list[int]] = defaultdict(list)
    singles: dict[tuple[int, int], int] = defaultdict(int)
    packs: dict[tuple[int, int], PackKV] = {}
    start = 0
    for chunk in chunks:
        if (reading := chunk.sequence.pack) is not None:
            kv = reading.pack.kv
            key = (id(kv), reading.num_tokens)
            packs[key] = kv
            rows[key].extend(range(start, start + chunk.count))
            singles[key] += chunk.count == 1
        start += chunk.count
    return [
        _Readers(partial(kv.beginning, tokens=key[1], dtype=dtype), torch.tensor(rows[key]), singles[key])
        for key, kv in packs.items()
    ]


def _stack(folded: Tensor) -> Tensor:
    """(R, KV heads, group, D) to (KV heads, R · group, D)."""
    return folded.transpose(0, 1).flatten(1, 2)


def _unstack(state: State, rows: int) -> State:
    """A state of stacked queries to (R, KV heads, group, D) and (R, KV heads, group)."""
    out, lse = state
    heads, _, dim = out.shape
    return out.view(heads, rows, -1, dim).transpose(0, 1), lse.view(heads, rows, -1).transpose(0, 1)
