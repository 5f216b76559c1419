"""From timings to figures: one stable JSON object, and a table for people."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from readahead_serving.bench.client import Timing
from readahead_serving.bench.workloads import Goal

_PERCENTILES = (50, 95, 99)


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between the two nearest ranks; `values` is sorted and not empty."""
    at = (len(values) - 1) * percent / 100
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


def summarise(timings: Sequence[Timing], wall_s: float, goal: Goal) -> dict[str, Any]:
    """The metrics of one level of load. Failed requests are counted; only finished ones have latencies.

    Args:
        timings: Of all requests sent.
        wall_s: From the first one sent to the last one back.
        goal: What makes a request a good one.
    """
    finished = [timing for timing in timings if timing.error is None]
    prompt_tokens = sum(timing.prompt_tokens for timing in finished)
    cached_tokens = sum(timing.cached_tokens for timing in finished)
    completion_tokens = sum(timing.completion_tokens for timing in finished)
    return {
        "ttft_ms": _spread([timing.text_at[0] for timing in finished]),
        "tbt_ms": _spread([gap for timing in finished for gap in timing.gaps]),
        "e2e_ms": _spread([timing.done_at for timing in finished]),
        "output_tokens_per_s": round(completion_tokens / wall_s, 2),
        "requests_per_s": round(len(finished) / wall_s, 3),
        "goodput_rps": round(sum(_is_good(timing, goal) for timing in finished) / wall_s, 3),
        "prompt_tokens": prompt_tokens,
        "cached_tokens": cached_tokens,
        "computed_tokens": prompt_tokens - cached_tokens,
        "completion_tokens": completion_tokens,
        "requests": len(timings),
        "errors": len(timings) - len(finished),
        "error_messages": dict(Counter(timing.error for timing in timings if timing.error is not None)),
        "wall_s": round(wall_s, 3),
    }


def as_table(report: dict[str, Any]) -> Table:
    """The levels of a report side by side."""
    server, hardware = report["server"], report["hardware"]
    title = f"{report['workload']}: {server['model']} at {server['url']}, {hardware['cpu']}, {hardware['cores']} cores"
    table = Table(title=title, caption="TTFT, TBT and e2e: p50 / p95 / p99 in ms")
    for column in ("users", "TTFT", "TBT", "e2e", "tok/s", "req/s", "errors"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in report["runs"]:
        metrics = run["metrics"]
        spreads = (_cell(metrics[name]) for name in ("ttft_ms", "tbt_ms", "e2e_ms"))
        rates = (str(metrics[name]) for name in ("output_tokens_per_s", "requests_per_s", "errors"))
        table.add_row(str(run["load"]["concurrency"]), *spreads, *rates)
    return table


def _spread(seconds: Sequence[float]) -> dict[str, float | None]:
    """Percentiles and mean in milliseconds; nulls where nothing was measured."""
    ordered = sorted(seconds)
    spread: dict[str, float | None] = {
        f"p{p}": round(percentile(ordered, p) * 1000, 2) if ordered else None for p in _PERCENTILES
    }
    spread["mean"] = round(statistics.fmean(ordered) * 1000, 2) if ordered else None
    return spread


def _is_good(timing: Timing, goal: Goal) -> bool:
    gaps = sorted(timing.gaps)
    return timing.text_at[0] * 1000 <= goal.ttft_ms and (not gaps or percentile(gaps, 95) * 1000 <= goal.tbt_ms)


def _cell(spread: dict[str, float | None]) -> str:
    return " / ".join("-" if spread[f"p{p}"] is None else f"{spread[f'p{p}']:.0f}" for p in _PERCENTILES)
