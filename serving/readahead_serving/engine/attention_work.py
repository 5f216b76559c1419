"""How one step's attention is cut into items for the kernel's threads."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TILE_QUERIES = 128
"""Queries of one work item at most: kQueries of attention.cpp."""
ITEMS_PER_THREAD = 8
"""Long runs are cut until there are about so many items: with fewer, threads that end early wait for the last."""
KEY_TILE = 64
"""Keys attended at a time, kTile of tiles.hpp: items begin at multiples of it, as the scales of bytes do."""
MIN_ITEM_KEYS = 256
"""Keys that a run is not cut below: each piece costs a state to merge."""
SETUP_QUERIES = 16
"""What laying out a key costs, beside its products, as queries."""
SERIAL_WORK = 24_000
"""Keys times queries below which waking the other threads takes longer than it saves."""

Ints = NDArray[np.int64]
_Item = tuple[int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of keys and the rows that read it."""

    source: int
    """Where it lies: 0 is the cache, others are packs."""
    head_stride: int
    """Numbers from one head's keys to the next's."""
    piece_tokens: int
    """Keys in each piece but the last."""
    pieces: list[int]
    """Where in the source each piece begins, in numbers."""
    rows: Ints
    """(R,), ascending."""
    visible: Ints
    """(R,), not descending within a sequence: keys of the run that each row sees, one at least."""


@dataclass(frozen=True, slots=True)
class Work:
    """The arrays that attention.cpp reads, which names their columns."""

    groups: Ints
    pieces: Ints
    items: Ints
    """The longest first, so that all threads end together."""
    readers: Ints
    states: Ints
    threads: int

    @property
    def num_states(self) -> int:
        return int(self.states[-1])

    @classmethod
    def of(cls, runs: Seq[Run], rows: int, heads: int, kv_heads: int, threads: int) -> Work:
        """Cuts a step.

        Args:
            runs: What is to be attended.
            rows: Of the step; each reads a run at least.
            heads: Query heads.
            kv_heads: They divide `heads`.
            threads: There are.
        """
        group = heads // kv_heads
        tile = TILE_QUERIES // group
        costs = [_cost(run, tile, group) for run in runs]
        total = sum(costs) * kv_heads
        threads = threads if total > SERIAL_WORK else 1
        share = total / (ITEMS_PER_THREAD * threads)
        splits = [_splits(run, cost / share, tile, threads) for run, cost in zip(runs, costs, strict=True)]
        firsts = np.cumsum([0, *(len(run.rows) for run in runs)]).tolist()
        items = [
            item
            for number, run in enumerate(runs)
            for item in _items(run, number, firsts[number], tile, splits[number], kv_heads)
        ]
        items.sort(key=lambda item: item[3] * (item[5] - item[4]), reverse=True)
        readers, states = _readers(runs, splits, rows)
        piece_starts = np.cumsum([0, *(len(run.pieces) for run in runs)])
        groups = [
            (run.source, run.head_stride, run.piece_tokens, start)
            for run, start in zip(runs, piece_starts, strict=False)
        ]
        pieces = [piece for run in runs for piece in run.pieces]
        return cls(_ints(groups), _ints(pieces), _ints(items), readers, states, threads)


def _cost(run: Run, tile: int, group: int) -> float:
    """Of one KV head, in keys times queries."""
    laid_out = int(run.visible[tile - 1 :: tile].sum() + run.visible[-1])
    return float(run.visible.sum()) * group + SETUP_QUERIES * laid_out


def _splits(run: Run, shares: float, tile: int, threads: int) -> int:
    """In how many pieces the run is attended."""
    if threads == 1:
        return 1
    tiles = -(-len(run.rows) // tile)
    return max(1, min(round(shares / tiles), int(run.visible.max()) // MIN_ITEM_KEYS))


def _items(run: Run, number: int, first: int, tile: int, splits: int, kv_heads: int) -> Iterator[_Item]:
    for start in range(0, len(run.rows), tile):
        count = min(tile, len(run.rows) - start)
        keys = int(run.visible[start : start + count].max())
        edges = [keys * split // splits // KEY_TILE * KEY_TILE for split in range(splits)] + [keys]
        for split in range(splits):
            for head in range(kv_heads):
                yield number, head, first + start, count, edges[split], edges[split + 1], split


def _readers(runs: Seq[Run], splits: Seq[int], rows: int) -> tuple[Ints, Ints]:
    """Each run's rows with what they see and their first state, and each row's first state."""
    counts = np.zeros(rows, dtype=np.int64)
    before = []
    for run, parts in zip(runs, splits, strict=True):
        before.append(counts[run.rows])
        counts[run.rows] += parts
    states = np.concatenate(([0], np.cumsum(counts)))
    tables = [
        np.stack((run.rows, run.visible, states[run.rows] + earlier), axis=-1)
        for run, earlier in zip(runs, before, strict=True)
    ]
    return np.ascontiguousarray(np.concatenate(tables)), states


def _ints(rows: Seq[int] | Seq[tuple[int, ...]]) -> Ints:
    return np.array(rows, dtype=np.int64)
