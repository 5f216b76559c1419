"""`readahead bench embed`."""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from readahead_serving.bench.embed.contestants import (
    Embed,
    PeerMissing,
    Vectors,
    ours,
    over_http,
    sentence_transformers,
)
from readahead_serving.bench.hardware import describe_hardware
from readahead_serving.bench.output import print_json, print_tables
from readahead_serving.bench.own_server import own_server
from readahead_serving.bench.spread import spread
from readahead_serving.bench.texts import prose, question
from readahead_serving.settings import ServingSettings

_SEED = 8
_SHORTEST, _LONGEST = 20, 200
"""Tokens of a passage: within every window, so that nobody leaves any out."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is embedded."""

    passages: int = 200
    turns: int = 3
    """Of each, one after another; the fastest counts."""
    questions: int = 150


def run_embed(settings: ServingSettings, model: Path, *, as_json: bool) -> None:
    """Measures and prints.

    Args:
        settings: Of our own model and server.
        model: A sentence-transformers folder.
        as_json: Print one JSON object instead of a table.

    Raises:
        BenchFailed: A server can't be run.
        ModelLoadError: The folder holds no model.
    """
    measured = asyncio.run(_measure(settings, model))
    if as_json:
        hardware = describe_hardware() | {"load_average": os.getloadavg()[0]}
        print_json({"workload": "embed", "hardware": hardware, "command": shlex.join(sys.argv), **measured})
        return
    table = Table("metric", "value")
    for name, value in _flat(measured["metrics"]):
        table.add_row(name, str(value))
    print_tables([table])


def _flat(metrics: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in metrics.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


async def _measure(settings: ServingSettings, model: Path) -> dict[str, Any]:
    sizes = Sizes()
    measured = await measure_embedding(settings, model, sizes)
    async with own_server(settings) as server:
        measured["metrics"]["question_over_http_ms"] = await questions_over_http(server.url, model.name, sizes)
    return measured


async def questions_over_http(url: str, model: str, sizes: Sizes) -> dict[str, float | None]:
    """Milliseconds of one question after another.

    Args:
        url: Of a server, up to /v1.
        model: As the server calls it.
        sizes: How many questions.
    """
    async with over_http(url, model) as embed:
        return await _one_by_one(embed, _questions(sizes))


async def measure_embedding(settings: ServingSettings, model: Path, sizes: Sizes) -> dict[str, Any]:
    """Load and metrics in process: passages by turns of ours and the peer, then one question after another."""
    dice = random.Random(_SEED)
    passages = [prose(dice.randint(_SHORTEST, _LONGEST), seed=80_000 + n) for n in range(sizes.passages)]
    async with ours(model, settings, "float32") as embed:
        truth = await embed(passages)
    metrics: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        contestants = {"ours": await stack.enter_async_context(ours(model, settings))}
        try:
            contestants["sentence_transformers"] = await asyncio.to_thread(sentence_transformers, model)
        except PeerMissing as missing:
            metrics["sentence_transformers"] = {"missing": str(missing)}
        metrics |= await _passages(contestants, passages, truth, sizes.turns)
        for name, embed in contestants.items():
            metrics[name]["question_ms"] = await _one_by_one(embed, _questions(sizes))
    if "sentence_transformers" in contestants:
        fast, slow = (metrics[name]["passages_per_s"] for name in contestants)
        metrics["times_sentence_transformers"] = round(fast / slow, 2)
    load = {"model": model.name, "passages": sizes.passages, "tokens": [_SHORTEST, _LONGEST], "turns": sizes.turns}
    return {"load": load | {"questions": sizes.questions, "seed": _SEED}, "metrics": metrics}


async def _passages(
    contestants: dict[str, Embed], passages: Sequence[str], truth: Vectors, turns: int
) -> dict[str, dict[str, Any]]:
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    rows: dict[str, Vectors] = {}
    for embed in contestants.values():
        await embed(passages[:1])
    for _ in range(turns):
        for name, embed in contestants.items():
            began = time.perf_counter()
            rows[name] = await embed(passages)
            seconds[name].append(time.perf_counter() - began)
    return {
        name: {
            "passages_per_s": round(len(passages) / min(seconds[name]), 1),
            "least_cosine_to_float32": round(float(np.sum(rows[name] * truth, axis=1).min()), 6),
        }
        for name in contestants
    }


def _questions(sizes: Sizes) -> list[str]:
    return [question(90_000 + number) for number in range(sizes.questions)]


async def _one_by_one(embed: Embed, questions: Sequence[str]) -> dict[str, float | None]:
    await embed(questions[:1])
    taken = []
    for text in questions:
        began = time.perf_counter()
        await embed([text])
        taken.append(time.perf_counter() - began)
    return spread(taken)
