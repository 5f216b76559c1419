"""One figure as it grows with one quantity."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Curve:
    """What was measured at each place."""

    name: str
    title: str
    x: str
    """What grows, with its unit."""
    y: str
    """What is measured, with its unit."""
    points: Sequence[tuple[float, float]]
    constant: Mapping[str, object]
    """What stayed as it was."""


def write_csv(curves: Sequence[Curve], file: Path) -> None:
    """All points of all curves, a row each."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(("curve", "x", "y", "x_value", "y_value"))
        for curve in curves:
            writer.writerows((curve.name, curve.x, curve.y, x, y) for x, y in curve.points)
