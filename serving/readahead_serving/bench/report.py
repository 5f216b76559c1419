"""Reports as tables for people, and ours against a peer's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from readahead_serving.bench.spread import PERCENTILES
from readahead_serving.bench.summary import Goal, summarise

_COMMON = ("prompt_tokens", "completion_tokens", "computed_tokens", "cached_tokens", "requests", "wall_s")


def ratios(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, float | None]:
    """How many times better we are than a peer: below 1 we lose; None where there is nothing to divide."""
    return {
        "ttft_p50": _ratio(theirs["ttft_ms"]["p50"], ours["ttft_ms"]["p50"]),
        "tbt_p50": _ratio(theirs["tbt_ms"]["p50"], ours["tbt_ms"]["p50"]),
        "max_tbt_p99": _ratio(theirs["max_tbt_ms"]["p99"], ours["max_tbt_ms"]["p99"]),
        "output_tokens_per_s": _ratio(ours["output_tokens_per_s"], theirs["output_tokens_per_s"]),
        "goodput_rps": _ratio(ours["goodput_rps"], theirs["goodput_rps"]),
    }


def as_tables(report: dict[str, Any]) -> list[Table]:
    """The levels of a report side by side, each server's below the other's, and what only this workload measures."""
    server, hardware = report["server"], report["hardware"]
    title = f"{report['workload']}: {server['model']} at {server['url']}, {hardware['cpu']}, {hardware['cores']} cores"
    tables = [_levels(title, report["runs"])]
    for peer in report.get("peers", ()):
        name = f"{peer['server']['model']} at {peer['server']['url']}"
        tables += [_levels(name, peer["runs"]), _ratio_table(f"ours over {name}", peer)]
    return [*tables, _own_figures(report["runs"])]


def _levels(title: str, runs: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=title, caption="TTFT, TBT and e2e: p50 / p95 / p99 in ms; stall: p99 of each longest gap")
    for column in ("users", "TTFT", "TBT", "stall", "e2e", "tok/s", "req/s", "errors"):
        table.add_column(column, justify="right", no_wrap=True)
    for run in runs:
        metrics = run["metrics"]
        ttft, tbt, e2e = (_cell(metrics[name]) for name in ("ttft_ms", "tbt_ms", "e2e_ms"))
        stall = metrics["max_tbt_ms"]["p99"]
        rates = (str(metrics[name]) for name in ("output_tokens_per_s", "requests_per_s", "errors"))
        level = str(run["load"]["concurrency"])
        table.add_row(level, ttft, tbt, "-" if stall is None else f"{stall:.0f}", e2e, *rates)
    return table


def _ratio_table(title: str, peer: dict[str, Any]) -> Table:
    table = Table(title=title, caption="above 1: ours is better")
    for column in ("users", *peer["ratios"][0]):
        table.add_column(column, justify="right")
    for run, figures in zip(peer["runs"], peer["ratios"], strict=True):
        table.add_row(str(run["load"]["concurrency"]), *map(_show, figures.values()))
    return table


def _own_figures(runs: Sequence[dict[str, Any]]) -> Table:
    """Tokens, and the metrics that only one workload has, a row each and a column for each level."""
    table = Table("metric", *(f"{run['load']['concurrency']} users" for run in runs))
    standard = set(summarise([], 1.0, Goal(0, 0))) - set(_COMMON)
    names = dict.fromkeys(name for run in runs for name in run["metrics"] if name not in standard)
    for name in names:
        table.add_row(name, *(_show(run["metrics"].get(name)) for run in runs))
    return table


def _show(value: Any) -> str:
    return _cell(value) if isinstance(value, dict) else "-" if value is None else str(value)


def _ratio(over: float | None, under: float | None) -> float | None:
    return round(over / under, 2) if over is not None and under else None


def _cell(figures: dict[str, float | None]) -> str:
    return " / ".join("-" if figures[f"p{p}"] is None else f"{figures[f'p{p}']:.0f}" for p in PERCENTILES)
