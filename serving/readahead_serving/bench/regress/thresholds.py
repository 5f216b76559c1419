"""The bounds that figures are held against, kept in one file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from readahead_serving.errors import BenchFailed

FILE = Path(__file__).with_name("thresholds.toml")


@dataclass(frozen=True, slots=True)
class Threshold:
    """A figure's bounds; None for none on that side."""

    name: str
    why: str
    at_least: float | None = None
    at_most: float | None = None
    optional: bool = False
    """Whether it holds where it can't be measured."""

    @property
    def bound(self) -> str:
        parts = ((">=", self.at_least), ("<=", self.at_most))
        return " and ".join(f"{sign} {limit:g}" for sign, limit in parts if limit is not None)

    def allows(self, value: float | None) -> bool:
        """Whether a value is within the bounds; one that could not be measured is not, unless it is optional."""
        if value is None:
            return self.optional
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One figure and what it was held against."""

    threshold: Threshold
    value: float | None
    """None where it could not be measured."""

    @property
    def holds(self) -> bool:
        return self.threshold.allows(self.value)


def read_thresholds(file: Path = FILE) -> Sequence[Threshold]:
    """The bounds of a file, a table for each figure.

    Raises:
        BenchFailed: It isn't such a file.
    """
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
        return [Threshold(name=name, **table) for name, table in tables.items()]
    except (OSError, tomllib.TOMLDecodeError, TypeError) as error:
        raise BenchFailed(f"{file} holds no thresholds: {error}.") from error


def judge(figures: Mapping[str, float | None], thresholds: Sequence[Threshold]) -> list[Verdict]:
    """Holds each figure against its bounds.

    Raises:
        BenchFailed: A figure has no bounds, which would be a check that can't fail.
    """
    if unbounded := sorted(figures.keys() - {threshold.name for threshold in thresholds}):
        raise BenchFailed(f"No threshold for {', '.join(unbounded)}: add them.")
    return [Verdict(threshold, figures.get(threshold.name)) for threshold in thresholds]
