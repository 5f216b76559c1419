"""What is measured: every figure a ratio within one run, or a count."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from readahead_serving.bench.embed.command import Sizes as EmbedSizes
from readahead_serving.bench.embed.command import measure_embedding
from readahead_serving.bench.own_server import own_server
from readahead_serving.bench.runner import BenchOptions, measure
from readahead_serving.bench.workloads import WORKLOADS
from readahead_serving.engine.shared_attention import attend_run
from readahead_serving.kernels.build import supported_levels
from readahead_serving.kernels.opening import open_kernels
from readahead_serving.model.linear import choose_forms
from readahead_serving.settings import ServingSettings

_READERS, _KEYS, _KV_HEADS, _GROUP, _HEAD_DIM = 16, 4000, 3, 3, 64
_LINEAR = (3072, 576)
"""Rows and columns of SmolLM2-135M's gate and up projections."""
_TURNS, _TURNS_S = 31, 1.0
"""So many turns at least, for so many seconds: short ones would all fall into one mood of the machine."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: as little as shows the ratios, so that the whole ends within a minute or little more."""

    pack_tokens: int = 1200
    storm: int = 40
    """Requests, of which some are hung up on."""
    storm_tokens: int = 600
    """Of the longest of their prompts."""
    few: int = 6
    """Questions of one user."""
    many: int = 32
    """Questions of sixteen."""
    answer_tokens: int = 16
    long_tokens: int = 3000
    """Of the prompt that is thrown among running streams."""
    streams: int = 8
    stream_tokens: int = 200
    arrivals: int = 100
    """At capacity, and as many at twice that: enough for the queue to fill."""
    passages: int = 48
    """That are embedded."""


_QUEUE_S = 0.5
"""How long arrivals of short answers may wait, so that few are enough for refusals."""


async def measure_figures(
    settings: ServingSettings, embedding_model: Path | None, sizes: Sizes, tell: Callable[[str], None]
) -> dict[str, float | None]:
    """Starts servers of these settings and measures every figure.

    Args:
        settings: Of the servers, which have no embedding model.
        embedding_model: A sentence-transformers folder; None measures none.
        sizes: How much.
        tell: Called with what comes next.
    """
    with tempfile.TemporaryDirectory(prefix="readahead-bench-") as packs:
        settings = settings.model_copy(update={"packs_dir": Path(packs), "embedding_model": ""})
        limits = dict(WORKLOADS["w5"].server) | {"max_queue_seconds": _QUEUE_S}
        async with own_server(settings.model_copy(update=limits)) as server:
            tell(f"ready after {server.start_s:.1f} s without an embedding model (told, not bounded)")
            tell("questions on a pack, a long prompt among streams, overload, and clients that hang up")
            served = await served_figures(server.url, settings, sizes)
        tell("a pack after a restart")
        options = BenchOptions(prefix_tokens=sizes.pack_tokens, max_tokens=sizes.answer_tokens, requests=2)
        restart = await _level(settings, "pack-restart", options)
    tell("embedding")
    embedding = {} if embedding_model is None else await embedding_figures(settings, embedding_model, sizes)
    tell("attention")
    shared = {"attention_16_readers_shared_over_each": shared_over_each()}
    return {**served, **restart_figures(restart), **embedding, **shared, **kernel_figures(settings)}


async def served_figures(url: str, settings: ServingSettings, sizes: Sizes) -> dict[str, float | None]:
    """What a running server of ours shows."""
    options = BenchOptions(url, prefix_tokens=sizes.pack_tokens, max_tokens=sizes.answer_tokens)
    one = await _level(settings, "w1", replace(options, concurrency=(1,), requests=sizes.few))
    many = await _level(settings, "w1", replace(options, concurrency=(16,), requests=sizes.many))
    streaming = BenchOptions(
        url, concurrency=(sizes.streams,), prefix_tokens=sizes.long_tokens, max_tokens=sizes.stream_tokens
    )
    long = await _level(settings, "w4", streaming)
    crowd = BenchOptions(url, requests=sizes.arrivals, max_tokens=sizes.answer_tokens)
    overload = await _level(settings, "w5", crowd)
    stormy = BenchOptions(url, concurrency=(8,), requests=sizes.storm, prefix_tokens=sizes.storm_tokens)
    storm = await _level(settings, "w6", stormy)
    crowded = stream_figures(long) | overload_figures(overload)
    return {**question_figures(one, many), **crowded, "cancelled_tokens_leaked": storm["leaked_tokens"]}


def question_figures(one: Mapping[str, Any], many: Mapping[str, Any]) -> dict[str, float | None]:
    """Of questions on one pack, asked by one user and by sixteen."""
    told = sum(level["prompt_tokens"] - level["cached_tokens"] for level in (one, many))
    computed = sum(level["engine_computed_tokens"] for level in (one, many))
    possible = sum(level["theoretical_cached_tokens"] for level in (one, many))
    cached = sum(level["cached_tokens"] for level in (one, many))
    return {
        "pack_first_token_over_cold": _over(one["ttft_ms"]["p50"], one["cold_ttft_ms"]),
        "questions_cached_share": _over(cached, possible),
        "tokens_computed_unaccounted": computed - told,
        "throughput_16_users_over_1": _over(many["output_tokens_per_s"], one["output_tokens_per_s"]),
    }


def stream_figures(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Of streams beside a long prompt."""
    return {
        "long_prompt_tbt_p99_over_before": metrics["tbt_p99_during_over_before"],
        "long_prompt_stall_over_its_prefill": _over(metrics["longest_stall_beyond_step_ms"], metrics["long_ttft_ms"]),
    }


def overload_figures(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Of twice as many requests as can be served."""
    return {
        "overload_goodput_kept": metrics["goodput_kept"],
        "overload_refusal_over_answer": _over(metrics["refusal_ms"]["p95"], metrics["e2e_ms"]["p50"]),
    }


def restart_figures(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Of a pack before and after kill -9."""
    told = metrics["prompt_tokens"] - metrics["cached_tokens"]
    return {
        "restart_first_token_over_resident": _over(metrics["after_restart_ttft_ms"], metrics["before_kill_ttft_ms"]),
        "restart_cached_share": _over(metrics["cached_tokens_of_first"], metrics["prompt_tokens_of_first"]),
        "restart_tokens_unaccounted": metrics["engine_computed_tokens"] - told,
    }


async def embedding_figures(settings: ServingSettings, model: Path, sizes: Sizes) -> dict[str, float | None]:
    """Of passages embedded as the service computes; the peer's only where it is installed."""
    few = EmbedSizes(passages=sizes.passages, turns=2, questions=1)
    metrics = (await measure_embedding(settings, model, few))["metrics"]
    return {
        "embedding_least_cosine_to_float32": metrics["ours"]["least_cosine_to_float32"],
        "embedding_times_sentence_transformers": metrics.get("times_sentence_transformers"),
    }


def shared_over_each() -> float:
    """Attention of many readers over one run of keys: their queries stacked, over one reader after another."""
    keys, values = (torch.randn(_KV_HEADS, _KEYS, _HEAD_DIM, dtype=torch.bfloat16) for _ in range(2))
    q = torch.randn(_KV_HEADS, _READERS * _GROUP, _HEAD_DIM, dtype=torch.bfloat16)
    each = [part.contiguous() for part in torch.split(q, _GROUP, dim=1)]

    def shared() -> None:
        attend_run(q, keys, values)

    def separate() -> None:
        for part in each:
            attend_run(part, keys, values)

    with torch.inference_mode():
        return by_turns(shared, separate)


def kernel_figures(settings: ServingSettings) -> dict[str, float | None]:
    """Our kernels over PyTorch, on the weights that a decode step of one sequence reads; nothing without kernels, nor
    with others than this processor's best, which PyTorch always takes."""
    opened = open_kernels(settings.kernels, settings.kernels_dir.expanduser())
    kernels = opened.kernels
    if kernels is None or opened.state != supported_levels()[0]:
        return {}
    weight = torch.randn(_LINEAR, dtype=torch.bfloat16)
    ours, pytorch = (choose_forms(torch.bfloat16, "auto", one).layers(weight, None) for one in (kernels, None))
    x = torch.randn(1, _LINEAR[1], dtype=torch.bfloat16)
    with torch.inference_mode():
        return {"linear_kernel_over_pytorch": by_turns(partial(ours, x), partial(pytorch, x))}


def by_turns(one: Callable[[], object], other: Callable[[], object]) -> float:
    """The first's processor time over the other's, on one thread, the best of several turns.

    A loaded machine then changes little: what waits for a processor spends no time on it, no thread waits for another,
    and of turns that lost their caches to a neighbour the best is the one that lost least.
    """
    best, threads = [math.inf, math.inf], torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        turns, ends = 0, time.monotonic() + _TURNS_S
        while turns < _TURNS or time.monotonic() < ends:
            turns += 1
            for number, variant in enumerate((one, other)):
                began = time.thread_time()
                variant()
                best[number] = min(best[number], time.thread_time() - began)
    finally:
        torch.set_num_threads(threads)
    return best[0] / best[1]


async def _level(settings: ServingSettings, workload: str, options: BenchOptions) -> Mapping[str, Any]:
    report = await measure(WORKLOADS[workload], options, settings)
    metrics: Mapping[str, Any] = report["metrics"]
    return metrics


def _over(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None
