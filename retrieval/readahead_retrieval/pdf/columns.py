"""Columns of prose: a page is cut along the gutter that prose respects on both sides.

A simplified form of the recursive X-Y cut (Nagy and Seth, "Hierarchical representation of optically scanned
documents", 1984): what crosses the gutter (titles, wide tables) divides the page into bands, which are read one after
the other, and inside a band the left column is read before the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from readahead_retrieval.pdf.segments import Segment

_MAX_DEPTH = 3
_BINS = 100
_MIN_LINES = 4
_MAX_CROSSING = 0.3
"""Share of the segments that may cross a gutter."""
_MIN_FILL = 0.5
"""Share of its column that a line of prose fills; cells of tables are narrower."""
_MIN_PROSE = 0.6
"""Share of a column's characters that stand in such lines."""
_MIN_LINE_CHARACTERS = 14


def to_columns(segments: list[Segment], depth: int = 0) -> Iterator[list[Segment]]:
    """Regions in reading order: columns, and what is not set in columns."""
    gutter = _gutter(segments) if depth < _MAX_DEPTH else None
    if gutter is None:
        if segments:
            yield segments
        return
    whole: list[Segment] = []
    for band in _bands(segments, gutter):
        left = [segment for segment in band if segment.x1 <= gutter]
        right = [segment for segment in band if segment.x0 >= gutter]
        if len(left) + len(right) < len(band) or not _are_columns(left, right):
            whole += band
            continue
        if whole:
            yield whole
            whole = []
        yield from to_columns(left, depth + 1)
        yield from to_columns(right, depth + 1)
    if whole:
        yield whole


def _bands(segments: Sequence[Segment], gutter: float) -> Iterator[list[Segment]]:
    """Runs of segments that cross the gutter, and runs that keep off it, from top to bottom."""
    ordered = sorted(segments, key=lambda segment: segment.y0)
    for _, band in groupby(ordered, key=lambda segment: segment.x0 < gutter < segment.x1):
        yield list(band)


def _are_columns(left: Sequence[Segment], right: Sequence[Segment]) -> bool:
    return len(left) + len(right) >= _MIN_LINES and _is_prose(left, 1) and _is_prose(right, 1)


def _gutter(segments: Sequence[Segment]) -> float | None:
    """Where a vertical strip divides prose on its left from prose on its right, or None."""
    if len(segments) < 2 * _MIN_LINES:
        return None
    x0 = min(segment.x0 for segment in segments)
    step = (max(segment.x1 for segment in segments) - x0) / _BINS
    if step <= 0:
        return None
    crossing = _crossings(segments, x0, step)
    middle = range(_BINS // 5, _BINS - _BINS // 5)
    fewest = min(crossing[index] for index in middle)
    if fewest > _MAX_CROSSING * len(segments):
        return None
    # The middle of the longest run of the emptiest bins: a gutter is wider than a space.
    run = max(_runs([index for index in middle if crossing[index] == fewest]), key=len)
    gutter = x0 + (run[0] + run[-1] + 1) / 2 * step
    left = [segment for segment in segments if segment.x1 <= gutter]
    right = [segment for segment in segments if segment.x0 >= gutter]
    return gutter if _is_prose(left, _MIN_LINES) and _is_prose(right, _MIN_LINES) else None


def _crossings(segments: Sequence[Segment], x0: float, step: float) -> list[int]:
    """How many segments cover each of the bins that a page's width is divided into."""
    changes = [0] * (_BINS + 2)
    for segment in segments:
        changes[int((segment.x0 - x0) / step)] += 1
        changes[min(int((segment.x1 - x0) / step) + 1, _BINS + 1)] -= 1
    crossing, running = [], 0
    for change in changes[:_BINS]:
        running += change
        crossing.append(running)
    return crossing


def _runs(indexes: Sequence[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for index in indexes:
        if run and index != run[-1] + 1:
            yield run
            run = []
        run.append(index)
    yield run


def _is_prose(segments: Sequence[Segment], min_lines: int) -> bool:
    if len(segments) < min_lines:
        return False
    width = max(segment.x1 for segment in segments) - min(segment.x0 for segment in segments)
    prose = sum(
        segment.characters
        for segment in segments
        if segment.width >= _MIN_FILL * width and segment.characters >= _MIN_LINE_CHARACTERS
    )
    return prose >= _MIN_PROSE * sum(segment.characters for segment in segments)
