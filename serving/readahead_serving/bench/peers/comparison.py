"""From the rounds of a contest to one table: each figure of each server, and ours over the best of the others."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from readahead_serving.bench.peers.contest import OURS, Round

Played = tuple[Round, Mapping[str, Mapping[str, Any]]]
"""A round and the metrics of each server by name."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One row."""

    title: str
    workload: str
    users: tuple[int, ...]
    """At these levels; the median of them is shown."""
    metric: tuple[str, ...]
    """The way into a level's metrics."""
    more_is_better: bool


_RATE, _FIRST, _COLD = ("output_tokens_per_s",), ("ttft_ms", "p50"), ("cold_ttft_ms",)
FIGURES = (
    Figure("1 short chat, tokens/s", "chat", (1,), _RATE, more_is_better=True),
    Figure("16 short chats, tokens/s", "chat", (16,), _RATE, more_is_better=True),
    Figure("answers that quote, tokens/s", "quote", (1,), _RATE, more_is_better=True),
    Figure("long text cold, first token in ms", "w1", (1, 8, 16), _COLD, more_is_better=False),
    Figure("long text cached, first token in ms", "w1", (1,), _FIRST, more_is_better=False),
    Figure("long text cached, 1 user, tokens/s", "w1", (1,), _RATE, more_is_better=True),
    Figure("long text cached, 8 users, tokens/s", "w1", (8,), _RATE, more_is_better=True),
    Figure("long text cached, 16 users, tokens/s", "w1", (16,), _RATE, more_is_better=True),
)


def compare(played: Sequence[Played]) -> list[dict[str, Any]]:
    """The rows for which something was played.

    `values` are by server, null where it has none; `failed` counts requests by server where some failed; `ratio` is
    how many times better ours is than the best of the others, null without one.
    """
    return [row for figure in FIGURES if (row := _row(figure, played))]


def as_table(report: Mapping[str, Any]) -> Table:
    """The rows of a report for people."""
    names = list(report["servers"])
    hardware = report["hardware"]
    table = Table(
        title=f"{report['model']} on {hardware['cpu']}, {hardware['cores']} cores",
        caption="ratio: ours over the best of the others; above 1 ours is better",
    )
    for column in ("", *names, "ratio"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for row in report["rows"]:
        cells = (_cell(row["values"].get(name), row["failed"].get(name, 0)) for name in names)
        table.add_row(row["figure"], *cells, "-" if row["ratio"] is None else f"{row['ratio']:.2f}")
    starts = (f"{server['start_s']:.1f}" for server in report["servers"].values())
    table.add_row("start-up, s", *starts, "")
    return table


def _row(figure: Figure, played: Sequence[Played]) -> dict[str, Any] | None:
    levels = [metrics for one, metrics in played if one.workload == figure.workload and one.users in figure.users]
    if not levels:
        return None
    names = dict.fromkeys(name for metrics in levels for name in metrics)
    values = {name: _median(figure, [metrics[name] for metrics in levels if name in metrics]) for name in names}
    failed = {name: sum(metrics[name]["errors"] for metrics in levels if name in metrics) for name in names}
    others = {name: value for name, value in values.items() if name != OURS and value and not failed[name]}
    best = (max if figure.more_is_better else min)(others, key=lambda name: others[name], default=None)
    return {
        "figure": figure.title,
        "more_is_better": figure.more_is_better,
        "values": values,
        "failed": {name: count for name, count in failed.items() if count},
        "best_peer": best,
        "ratio": _ratio(figure, values.get(OURS), others[best] if best else None),
    }


def _median(figure: Figure, levels: Sequence[Mapping[str, Any]]) -> float | None:
    found = [value for metrics in levels if (value := _look_up(metrics, figure.metric))]
    return round(statistics.median(found), 2) if found else None


def _look_up(metrics: Mapping[str, Any], way: Sequence[str]) -> float | None:
    value: Any = metrics
    for name in way:
        value = None if value is None else value.get(name)
    return None if value is None else float(value)


def _ratio(figure: Figure, ours: float | None, theirs: float | None) -> float | None:
    if not ours or not theirs:
        return None
    return round(ours / theirs if figure.more_is_better else theirs / ours, 2)


def _cell(value: float | None, failed: int) -> str:
    shown = "-" if value is None else f"{value:.1f}"
    return f"{shown} ({failed} failed)" if failed else shown
