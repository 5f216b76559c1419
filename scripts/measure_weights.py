"""Measures a model's decoder for every way of storing weights, each in a process of its own; prints a Markdown table.

No cache and no attention: what is measured is the linear layers, norms and embeddings that every step pays for.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from readahead_serving.model.decoder import Decoder
from readahead_serving.model.linear import Weights, choose_forms
from readahead_serving.model.loader import load_model

KINDS: tuple[Weights, ...] = ("fp32", "bf16", "int8", "int4")
TOKENS = (1, 16, 64, 512)
REPEATS = 7


class NoAttention:
    """Hands the queries on."""

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q.contiguous()


def step_ms(decoder: Decoder, tokens: int) -> float:
    """The fastest of some steps: on a busy machine the only figure that means anything."""
    ids = torch.arange(tokens) % decoder.config.vocab_size
    positions = torch.arange(tokens) % decoder.config.max_positions
    rows = torch.arange(min(tokens, 64))
    took = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        decoder.forward(ids, positions, NoAttention(), rows)
        took.append(time.perf_counter() - start)
    return 1000 * min(took)


def resident_mb() -> float:
    """Memory held now, mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def measure(path: Path, kind: Weights, threads: int) -> str:
    """One row of the table."""
    torch.set_num_threads(threads)
    dtype = torch.float32 if kind == "fp32" else torch.bfloat16
    before, start = resident_mb(), time.perf_counter()
    decoder = load_model(path, dtype, choose_forms(dtype, kind)).decoder
    load_s, held = time.perf_counter() - start, resident_mb() - before
    steps = [step_ms(decoder, tokens) for tokens in TOKENS]
    rates = [f"{ms:.0f} ({1000 * tokens / ms:.0f})" for ms, tokens in zip(steps, TOKENS, strict=True)]
    cells = [kind, f"{load_s:.1f}", f"{held:.0f}", *rates, f"{os.getloadavg()[0]:.1f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file or a safetensors folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=KINDS, help="measure this one in this process")
    arguments = parser.parse_args()
    if arguments.only:
        print(measure(arguments.model, arguments.only, arguments.threads))
        return
    names = [f"M = {tokens}, ms (tokens/s)" for tokens in TOKENS]
    head = ["weights", "load, s", "memory, MB", *names, "load average"]
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    for kind in KINDS:
        command = [sys.executable, __file__, str(arguments.model), "--threads", str(arguments.threads), "--only", kind]
        subprocess.run(command, env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ}, check=True)


if __name__ == "__main__":
    main()
