"""From a run of text to the lines it stands in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_retrieval.flat_words import FlatWords
from readahead_retrieval.types import Box, Word


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a passage, and where it stands."""

    page: int
    """1-based."""
    box: Box


def line_boxes(words: Sequence[Word], start: int, end: int) -> tuple[Box, ...]:
    """One box for each line of `text[start:end]`, in reading order."""
    lines: list[Box] = []
    for word in _within(words, start, end):
        if lines and _continues(lines[-1], word.box):
            lines[-1] = _union(lines[-1], word.box)
        else:
            lines.append(word.box)
    return tuple(lines)


def _within(words: Sequence[Word], start: int, end: int) -> Sequence[Word]:
    if isinstance(words, FlatWords):
        return words.within(start, end)
    return [word for word in words if word.end > start and word.start < end]


def _continues(line: Box, box: Box) -> bool:
    """Beside it, not beneath: half the lower of the two heights in common, and further right."""
    common = min(line.y1, box.y1) - max(line.y0, box.y0)
    return common > 0.5 * min(line.y1 - line.y0, box.y1 - box.y0) and box.x0 >= line.x0


def _union(one: Box, other: Box) -> Box:
    return Box(min(one.x0, other.x0), min(one.y0, other.y0), max(one.x1, other.x1), max(one.y1, other.y1))
