"""Measures a step of the engine with and without the compiled kernels: `python scripts/measure_kernels.py MODEL.gguf`.

The whole model in bfloat16, in this process, for each way of holding weights (`--weights bf16 auto`): decode steps of 1
and 16 sequences, alone and on a pack of 6,000 tokens, and chunks of 512 tokens at the beginning and deep in a prompt.
Variants take turns, so that a machine's moods meet all of them. Told are the median milliseconds on the clock and, in
brackets, of processor time, which another process's load distorts less.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from readahead_serving.engine.executor import Executor
from readahead_serving.engine.kernel_attention import choose_attention
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pack_table import AttachedPack, PackReading
from readahead_serving.engine.kv.pool import BLOCK_TOKENS
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.plan import Chunk, StepPlan
from readahead_serving.engine.sequence import Sequence
from readahead_serving.kernels.build import KernelChoice
from readahead_serving.kernels.opening import open_kernels
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.linear import Weights, choose_forms
from readahead_serving.model.loader import load_model
from readahead_serving.settings import ServingSettings

PACK_TOKENS = 6000
BLOCKS = 96


@dataclass(frozen=True)
class Load:
    """A step: so many sequences compute `new` tokens behind `context` tokens of their own, and a pack's if wanted."""

    name: str
    sequences: int
    context: int
    new: int = 1
    on_pack: bool = False
    repeats: int = 11


LOADS = (
    Load("1 sequence", 1, 100),
    Load("16 sequences", 16, 100),
    Load("1 on the pack", 1, 20, on_pack=True),
    Load("16 on the pack", 16, 20, on_pack=True),
    Load("512 tokens of a prompt, first", 1, 0, 512, repeats=3),
    Load("512 tokens behind 5,500", 1, 5500, 512, repeats=2),
)


def random_pack(config: ModelConfig) -> AttachedPack:
    shape = (config.num_kv_heads, PACK_TOKENS, config.head_dim)
    keys, values = ([torch.randn(shape).bfloat16() for _ in range(config.num_layers)] for _ in range(2))
    return AttachedPack("", "", PackKV([1] * PACK_TOKENS, keys, values), b"")


def plan_of(load: Load, pack: AttachedPack) -> StepPlan:
    sequences = []
    each = -(-(load.context + load.new) // BLOCK_TOKENS)
    for number in range(load.sequences):
        before = PACK_TOKENS if load.on_pack else 0
        prompt = [1 + (7 * i + number) % 90 for i in range(before + load.context + load.new)]
        asked = GenerationRequest(request_id=str(number), prompt_tokens=prompt, sampling=SamplingParams(max_tokens=1))
        sequence = Sequence(asked)
        sequence.blocks = list(range(number * each, (number + 1) * each))
        sequence.pack = PackReading(pack, PACK_TOKENS) if load.on_pack else None
        sequence.num_computed = before + load.context
        sequences.append(sequence)
    return StepPlan(tuple(Chunk.next(sequence, load.new) for sequence in sequences))


def executor_of(path: Path, choice: KernelChoice, weights: Weights) -> tuple[Executor, ModelConfig]:
    kernels = open_kernels(choice, ServingSettings().kernels_dir.expanduser()).kernels
    model = load_model(path, torch.bfloat16, choose_forms(torch.bfloat16, weights, kernels), kernels)
    storage = KVStorage(
        num_layers=model.config.num_layers,
        num_kv_heads=model.config.num_kv_heads,
        head_dim=model.config.head_dim,
        dtype=torch.bfloat16,
        num_blocks=BLOCKS,
    )
    return Executor(model.decoder, storage, choose_attention(kernels, model.config)), model.config


def measure(executors: list[Executor], load: Load, pack: AttachedPack) -> list[str]:
    """A cell for each executor."""
    plan = plan_of(load, pack)
    clock: list[list[float]] = [[] for _ in executors]
    processor: list[list[float]] = [[] for _ in executors]
    for turn in range(load.repeats + 1):
        for number, executor in enumerate(executors):
            began, spent = time.perf_counter(), time.process_time()
            executor.execute(plan)
            if turn:  # the first is slow
                clock[number].append(1e3 * (time.perf_counter() - began))
                processor[number].append(1e3 * (time.process_time() - spent))
    medians = [map(statistics.median, one) for one in (clock, processor)]
    return [f"{wall:.1f} ({spent:.1f})" for wall, spent in zip(*medians, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file or a safetensors folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--weights", nargs="+", default=["auto"])
    parser.add_argument("--kernels", nargs="+", default=["off", "avx2", "avx512"])
    parser.add_argument("--loads", type=int, default=len(LOADS), help="only the first so many")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    variants = list(itertools.product(given.kernels, given.weights))
    executors, configs = zip(*(executor_of(given.model, *variant) for variant in variants), strict=True)
    pack = random_pack(configs[0])
    print(f"load average {os.getloadavg()[0]:.1f}, {given.threads} threads")
    print(f"| step | {' | '.join(map(', '.join, variants))} |\n|{' --- |' * (1 + len(executors))}")
    for load in LOADS[: given.loads]:
        print(f"| {load.name} | {' | '.join(measure(list(executors), load, pack))} |", flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
