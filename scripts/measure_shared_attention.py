"""Measures where shared-segment attention pays on a machine: `python scripts/measure_shared_attention.py`.

The engine's constants are to be read off these tables: `MIN_SAVED_READS`, the readings of a block from which on sharing
pays, and whether cutting a long run of keys into pieces pays where no thread is idle. Shapes are those of SmolLM2-135M:
9 query heads, 3 KV heads of 64, bfloat16, one layer. Variants take turns, so that a machine's moods meet all of them;
what is printed is the median in microseconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from unittest import mock

import torch

from readahead_serving.engine import attention, shared_attention
from readahead_serving.engine.attention import BatchAttention
from readahead_serving.engine.kv.pool import BLOCK_TOKENS
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.plan import Chunk
from readahead_serving.engine.sequence import Sequence as Running

HEADS, KV_HEADS, HEAD_DIM = 9, 3, 64
READERS = (2, 4, 8, 16)
BLOCKS = (1, 2, 4, 8, 16)
RUNS = (1000, 4000, 8000)
PIECES = (1, 2, 4, 8)


def by_turns(variants: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Median microseconds of each variant."""
    times: list[list[float]] = [[] for _ in variants]
    for turn in range(repeats + 2):
        for number, variant in enumerate(variants):
            began = time.perf_counter()
            variant()
            if turn >= 2:  # the first are slow
                times[number].append(time.perf_counter() - began)
    return [1e6 * statistics.median(one) for one in times]


def reader(number: int, shared: int, storage_block: int) -> Running:
    """A sequence that reads `shared` blocks and half a block of its own, and decodes one token."""
    tokens = shared * BLOCK_TOKENS + BLOCK_TOKENS // 2
    request = GenerationRequest(
        request_id=str(number), prompt_tokens=[0] * tokens, sampling=SamplingParams(max_tokens=1)
    )
    sequence = Running(request)
    sequence.blocks = [*range(shared), storage_block]
    sequence.num_computed = tokens - 1
    return sequence


def crossover(repeats: int) -> None:
    """Decoding: one call for what is shared and a merge, against every sequence for itself."""
    storage = KVStorage(
        num_layers=1, num_kv_heads=KV_HEADS, head_dim=HEAD_DIM, dtype=torch.bfloat16, num_blocks=max(BLOCKS) + 20
    )
    print("readers x blocks (saved readings): each for itself, shared, ratio")
    for readers in READERS:
        for blocks in BLOCKS:
            chunks = [Chunk.next(reader(n, blocks, max(BLOCKS) + n), 1) for n in range(readers)]
            q = torch.randn(readers, HEADS, HEAD_DIM, dtype=torch.bfloat16)
            k, v = (torch.randn(readers, KV_HEADS, HEAD_DIM, dtype=torch.bfloat16) for _ in range(2))
            with mock.patch.object(attention, "_pays", lambda *_: False):
                alone = BatchAttention(storage, chunks)
            with mock.patch.object(attention, "_pays", lambda readers, _: readers > 1):
                shared = BatchAttention(storage, chunks)
            first, second = by_turns([partial(each, 0, q, k, v) for each in (alone, shared)], repeats)
            saved = (readers - 1) * blocks
            print(f"{readers:3} x {blocks:2} ({saved:3}): {first:8.0f} {second:8.0f} {first / second:6.2f}")


def attend(pieces: int, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
    with mock.patch.object(shared_attention, "num_pieces", lambda *_: pieces):
        shared_attention.attend_run(q, keys, values)


def pieces(repeats: int) -> None:
    """A run of keys whole and in pieces, for one reader and for many."""
    print("run, readers: whole, then in " + ", ".join(map(str, PIECES[1:])) + " pieces")
    for tokens in RUNS:
        keys, values = (torch.randn(KV_HEADS, tokens, HEAD_DIM, dtype=torch.bfloat16) for _ in range(2))
        for rows in (1, 4, 16, 128):
            q = torch.randn(KV_HEADS, rows * HEADS // KV_HEADS, HEAD_DIM, dtype=torch.bfloat16)

            measured = by_turns([partial(attend, count, q, keys, values) for count in PIECES], repeats)
            print(f"{tokens}, {rows}: " + " ".join(f"{one:8.0f}" for one in measured))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=60)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with torch.inference_mode():
        crossover(given.repeats)
        pieces(max(5, given.repeats // 3))
