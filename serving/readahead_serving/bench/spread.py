"""Percentiles."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

PERCENTILES = (50, 95, 99)


def percentile(values: Sequence[float], percent: float) -> float:
    """Linear interpolation between the two nearest ranks; `values` is sorted and not empty."""
    at = (len(values) - 1) * percent / 100
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (at - below)


def spread(seconds: Sequence[float]) -> dict[str, float | None]:
    """Percentiles, mean and maximum in milliseconds; nulls where nothing was measured."""
    ordered = sorted(seconds)
    figures: dict[str, float | None] = {
        f"p{p}": round(percentile(ordered, p) * 1000, 2) if ordered else None for p in PERCENTILES
    }
    figures["mean"] = round(statistics.fmean(ordered) * 1000, 2) if ordered else None
    figures["max"] = round(ordered[-1] * 1000, 2) if ordered else None
    return figures
