"""Measures what packs in bytes cost and save: `python scripts/measure_pack_bytes.py MODEL.gguf TEXT.txt …`.

Of each text the first tokens become a pack, once in the model's dtype and once in bytes, and the tokens behind it are
read by the model on either. Told are bytes a token, milliseconds to turn the pack into bytes, the error of the logits
relative to those on the first pack, and at how many of these tokens both would choose the same; where not, the largest
gap between the two choices in the first pack's own logits. Last come the milliseconds of single steps on a pack.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor

from readahead_serving.engine.executor import Executor
from readahead_serving.engine.kernel_attention import choose_attention
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.pack_bytes import as_bytes
from readahead_serving.engine.kv.pack_table import AttachedPack, PackReading
from readahead_serving.engine.kv.pool import BLOCK_TOKENS
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.plan import Chunk, StepPlan
from readahead_serving.engine.sequence import Sequence
from readahead_serving.kernels.opening import open_kernels
from readahead_serving.model.linear import choose_forms
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.settings import ServingSettings

CHUNK = 512
READ = 256
"""Tokens read behind each pack."""


def sequence_of(tokens: list[int], pack: PackKV | None, first_block: int = 0) -> Sequence:
    sampling = SamplingParams(max_tokens=1, prompt_logprobs=True)
    sequence = Sequence(GenerationRequest(request_id="", prompt_tokens=tokens, sampling=sampling))
    if pack is not None:
        sequence.pack = PackReading(AttachedPack("", "", pack, b""), pack.num_tokens)
        sequence.num_computed = pack.num_tokens
    own = -(-sequence.num_pending // BLOCK_TOKENS)
    sequence.blocks = list(range(first_block, first_block + own))
    return sequence


def build(executor: Executor, tokens: list[int]) -> PackKV:
    sequence = sequence_of(tokens, None)
    while sequence.num_pending:
        chunk = Chunk.next(sequence, min(CHUNK, sequence.num_pending))
        executor.execute(StepPlan((chunk,)))
        sequence.num_computed = chunk.end
    return executor.lay_out(sequence)


def read(executor: Executor, tokens: list[int], pack: PackKV) -> Tensor:
    """The logits of all tokens behind the pack."""
    sequence = sequence_of(tokens, pack)
    return executor.execute(StepPlan((Chunk.next(sequence, sequence.num_pending),)))


def compare(executor: Executor, tokens: list[int], length: int) -> str:
    pack = build(executor, tokens[:length])
    began = time.perf_counter()
    in_bytes = as_bytes(pack)
    turned_ms = 1e3 * (time.perf_counter() - began)
    there, here = (read(executor, tokens, kv) for kv in (pack, in_bytes))
    error = float((here - there).norm() / there.norm())
    best, other = there.argmax(-1), here.argmax(-1)
    gaps = there.gather(1, best[:, None]) - there.gather(1, other[:, None])
    cells = (
        length,
        f"{pack.nbytes / length:,.0f}",
        f"{in_bytes.nbytes / length:,.0f}",
        f"{turned_ms:.0f}",
        f"{error:.4f}",
        f"{float((best == other).float().mean()):.1%}",
        f"{float(gaps.max()):.2f}",
    )
    return " | ".join(map(str, cells))


def steps(executor: Executor, packs: list[PackKV], users: int, new: int) -> str:
    """Median milliseconds of a step of so many users with so many new tokens each, on each pack by turns."""
    plans = []
    for pack in packs:
        tokens = [*pack.token_ids, *range(1, new + 1)]
        plans.append(StepPlan(tuple(Chunk.next(sequence_of(tokens, pack, user), new) for user in range(users))))
    spent: list[list[float]] = [[] for _ in plans]
    for _ in range(9):
        for times, plan in zip(spent, plans, strict=True):
            began = time.perf_counter()
            executor.execute(plan)
            times.append(1e3 * (time.perf_counter() - began))
    return " | ".join(f"{statistics.median(times[1:]):.1f}" for times in spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file or a safetensors folder")
    parser.add_argument("texts", type=Path, nargs="+", help="text files in UTF-8")
    parser.add_argument("--tokens", type=int, default=2000, help="of a pack at most")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    kernels = open_kernels("auto", ServingSettings().kernels_dir.expanduser()).kernels
    model = load_model(given.model, torch.bfloat16, choose_forms(torch.bfloat16, "auto", kernels), kernels)
    storage = KVStorage(
        num_layers=model.config.num_layers,
        num_kv_heads=model.config.num_kv_heads,
        head_dim=model.config.head_dim,
        dtype=torch.bfloat16,
        num_blocks=-(-(given.tokens + READ) // BLOCK_TOKENS) + 16,
    )
    executor = Executor(model.decoder, storage, choose_attention(kernels, model.config))
    tokenizer = load_tokenizer(given.model)
    print(f"load average {os.getloadavg()[0]:.1f}, {given.threads} threads")
    print("| text | tokens | bytes a token | in bytes | ms to turn | error of logits | same choice | largest gap |")
    print(f"|{' --- |' * 8}")
    for path in given.texts:
        tokens = tokenizer.encode(path.read_text(encoding="utf-8"), allow_special=False)[: given.tokens + READ]
        print(f"| {path.stem} | {compare(executor, tokens, len(tokens) - READ)} |", flush=True)
    pack = build(executor, tokens[: len(tokens) - READ])
    print(f"| step on {pack.num_tokens} tokens, ms | model's dtype | bytes |\n| --- | --- | --- |")
    for users, new in ((1, 1), (16, 1), (1, 30)):
        print(f"| {users} x {new} | {steps(executor, [pack, as_bytes(pack)], users, new)} |", flush=True)


if __name__ == "__main__":
    main()
