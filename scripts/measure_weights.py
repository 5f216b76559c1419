"""Measures a model's decoder for every way of holding weights, each in a process of its own; prints a Markdown table.

Times are of a decoder without cache and attention: the linear layers, norms and embeddings that every step pays for.
With `--quality` logits are compared with float32's instead, on all positions of a few texts.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import torch

from readahead_serving.kernels.build import KernelChoice
from readahead_serving.kernels.opening import open_kernels
from readahead_serving.model.decoder import Decoder
from readahead_serving.model.linear import Weights, choose_forms
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.model.reference_attention import ReferenceAttention
from readahead_serving.settings import ServingSettings

KINDS: tuple[Weights, ...] = ("fp32", "bf16", "auto", "int8", "int4")
TEXTS = (
    (
        "The night ventilation of the archive runs from eleven in the evening until five in the morning, and "
        "only while the air outside is drier than the air between the shelves."
    ),
    "def largest(numbers):\n    best = numbers[0]\n    for number in numbers:\n        if number > best:\n",
    "Q: What is the capital of France?\nA: Paris.\nQ: What is the capital of Italy?\nA:",
    (
        "In 1905 Albert Einstein published four papers, on the photoelectric effect, Brownian motion, special "
        "relativity and the equivalence of mass and energy."
    ),
    "A pump that weighs 41 kg is carried by two people; one of 63 kg takes a trolley, and no lift may hold both.",
)
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


def load(path: Path, kind: Weights, choice: KernelChoice) -> Decoder:
    """The model with its weights held so, by our kernels where they are chosen and can be had."""
    kernels = open_kernels(choice, ServingSettings().kernels_dir.expanduser()).kernels
    dtype = torch.float32 if kind == "fp32" else torch.bfloat16
    return load_model(path, dtype, choose_forms(dtype, kind, kernels), kernels).decoder


def measure(path: Path, kind: Weights, choice: KernelChoice) -> list[str]:
    """What loading and steps cost."""
    before, start = resident_mb(), time.perf_counter()
    decoder = load(path, kind, choice)
    load_s, held = time.perf_counter() - start, resident_mb() - before
    steps = [step_ms(decoder, tokens) for tokens in TOKENS]
    rates = [f"{ms:.1f} ({1000 * tokens / ms:.0f})" for ms, tokens in zip(steps, TOKENS, strict=True)]
    return [f"{load_s:.1f}", f"{held:.0f}", *rates]


def compare(path: Path, kind: Weights, choice: KernelChoice) -> list[str]:
    """How far logits are from float32's."""
    tokenizer = load_tokenizer(path)
    exact, ours = (
        torch.cat([logits(decoder, tokenizer.encode(text, allow_special=False)) for text in TEXTS])
        for decoder in (load(path, "fp32", "off"), load(path, kind, choice))
    )
    chosen = ours.argmax(-1, keepdim=True)
    gaps = exact.amax(-1) - exact.gather(-1, chosen).squeeze(-1)
    error = (ours - exact).norm() / exact.norm()
    return [f"{error:.4f}", f"{(gaps == 0).float().mean():.1%}", f"{gaps.max():.2f}", str(len(exact))]


def logits(decoder: Decoder, ids: list[int]) -> torch.Tensor:
    positions = torch.arange(len(ids))
    return decoder.forward(torch.tensor(ids), positions, ReferenceAttention(), positions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a GGUF file or a safetensors folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kernels", default="auto", choices=get_args(KernelChoice))
    parser.add_argument("--quality", action="store_true", help="compare logits instead of measuring times")
    parser.add_argument("--only", choices=KINDS, help="measure this one in this process")
    given = parser.parse_args()
    if given.only:
        torch.set_num_threads(given.threads)
        cells = (compare if given.quality else measure)(given.model, given.only, given.kernels)
        print(f"| {' | '.join([given.only, *cells, f'{os.getloadavg()[0]:.1f}'])} |")
        return
    times = ["load, s", "memory, MB", *(f"M = {tokens}, ms (tokens/s)" for tokens in TOKENS)]
    names = ["relative error", "agree", "largest gap", "positions"] if given.quality else times
    head = ["weights", *names, "load average"]
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}", flush=True)
    for kind in KINDS:
        subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--only", kind],
            env={"OMP_WAIT_POLICY": "PASSIVE", **os.environ},
            check=True,
        )


if __name__ == "__main__":
    main()
