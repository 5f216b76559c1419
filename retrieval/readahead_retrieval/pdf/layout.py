"""Reading order: words to segments, segments to columns, columns to lines.

The content stream decides only which words stand side by side. Where they stand on the page decides the rest: a
page is cut along the widest gutter that prose respects on both sides (a simplified form of the recursive X-Y cut,
Nagy and Seth 1984), what crosses the gutter (titles, wide figures' captions) divides it into bands, and inside a
column segments on one height form a line. Segments far apart on one line are the cells of a table's row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from readahead_retrieval.pdf.geometry import Rect
from readahead_retrieval.pdf.text import RawWord

_MAX_DEPTH = 3
_BINS = 100
_MIN_COLUMN_LINES = 4
_MIN_COLUMN_FILL = 0.5
"""Median width of a column's lines, as a share of the column: cells of tables are narrower."""
_MIN_COLUMN_CHARACTERS = 14
_GAP = 1.1
"""Of the line height: a wider gap between words parts cells."""


@dataclass(slots=True)
class Segment:
    """Words that follow each other on one line without a wide gap."""

    words: list[RawWord]
    box: Rect

    @property
    def characters(self) -> int:
        return sum(len(word.text) for word in self.words)


@dataclass(slots=True)
class Line:
    """A line of a column: one cell for prose, several for a row of a table."""

    cells: list[Segment]
    box: Rect
    column: int
    """Lines of one column follow each other; a paragraph does not leave its column and its band."""

    @property
    def characters(self) -> int:
        return sum(cell.characters for cell in self.cells)

    @property
    def size(self) -> float:
        return max(self.cells, key=lambda cell: cell.characters).words[0].size

    @property
    def bold(self) -> bool:
        return all(word.bold for cell in self.cells for word in cell.words)


def arrange(words: Sequence[RawWord]) -> list[Line]:
    """Lines in reading order."""
    segments = list(_segments(_without_overprint(words)))
    upright = [segment for segment in segments if not _is_turned(segment)]
    turned = [segment for segment in segments if _is_turned(segment)]
    lines: list[Line] = []
    for column, members in enumerate(_columns(upright, 0)):
        lines += [_line(row, column) for row in _rows(members)]
    # Text that runs up or down the margin is read last, each run by itself.
    lines += [Line([segment], segment.box, -1 - index) for index, segment in enumerate(turned)]
    return lines


def _without_overprint(words: Iterable[RawWord]) -> Iterator[RawWord]:
    """Drops a word drawn again on its own place to look bold or shadowed."""
    drawn: dict[tuple[str, int, int], Rect] = {}
    for word in words:
        box = word.box
        cell = max(word.size, 1.0)
        x, y = int(box.x0 / cell), int(box.y0 / cell)
        near = ((word.text, x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1))
        if any(_covers(drawn[key], box) for key in near if key in drawn):
            continue
        drawn[word.text, x, y] = box
        yield word


def _covers(first: Rect, second: Rect) -> bool:
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return width > 0.6 * second.width and height > 0.6 * second.height


def _segments(words: Iterable[RawWord]) -> Iterator[Segment]:
    current: Segment | None = None
    for word in words:
        if current is not None and _continues(current.words[-1], word):
            current.words.append(word)
            current.box = current.box.union(word.box)
            continue
        if current is not None:
            yield current
        current = Segment([word], word.box)
    if current is not None:
        yield current


def _continues(last: RawWord, word: RawWord) -> bool:
    if word.glued:
        return True
    if not _same_height(last.box, word.box):
        return False
    gap = max(word.box.x0 - last.box.x1, last.box.x0 - word.box.x1)
    return gap < _GAP * max(last.size, word.size, last.box.height)


def _same_height(first: Rect, second: Rect) -> bool:
    overlap = min(first.y1, second.y1) - max(first.y0, second.y0)
    return overlap > 0.4 * min(first.height, second.height)


def _is_turned(segment: Segment) -> bool:
    return segment.box.height > 2.5 * segment.box.width and segment.characters > 3


def _columns(segments: list[Segment], depth: int) -> Iterator[list[Segment]]:
    gutter = _gutter(segments) if depth < _MAX_DEPTH else None
    if gutter is None:
        if segments:
            yield segments
        return
    band: list[Segment] = []
    wide: list[Segment] = []
    for segment in sorted(segments, key=lambda member: member.box.y0):
        crosses = segment.box.x0 < gutter < segment.box.x1
        if crosses and band:
            yield from _band(band, gutter, depth)
            band = []
        if not crosses and wide:
            yield wide
            wide = []
        (wide if crosses else band).append(segment)
    if wide:
        yield wide
    yield from _band(band, gutter, depth)


def _band(segments: list[Segment], gutter: float, depth: int) -> Iterator[list[Segment]]:
    left = [segment for segment in segments if segment.box.x1 <= gutter]
    right = [segment for segment in segments if segment.box.x1 > gutter]
    if left and right and not (_is_prose(left, 1) and _is_prose(right, 1)):
        yield segments  # a table or a heading between the columns: read by rows
        return
    yield from _columns(left, depth + 1)
    yield from _columns(right, depth + 1)


def _gutter(segments: Sequence[Segment]) -> float | None:
    """Where a vertical strip divides prose on its left from prose on its right, or None."""
    if len(segments) < 2 * _MIN_COLUMN_LINES:
        return None
    x0 = min(segment.box.x0 for segment in segments)
    x1 = max(segment.box.x1 for segment in segments)
    step = (x1 - x0) / _BINS
    if step <= 0:
        return None
    crossing = _crossings(segments, x0, step)
    middle = range(_BINS // 5, _BINS - _BINS // 5)
    fewest = min(crossing[index] for index in middle)
    if fewest > 0.3 * len(segments):
        return None
    # The middle of the longest run of the emptiest bins: a gutter is wider than a space.
    run = max(_runs([index for index in middle if crossing[index] == fewest]), key=len)
    gutter = x0 + (run[0] + run[-1] + 1) / 2 * step
    left = [segment for segment in segments if segment.box.x1 <= gutter]
    right = [segment for segment in segments if segment.box.x0 >= gutter]
    if _is_prose(left, _MIN_COLUMN_LINES) and _is_prose(right, _MIN_COLUMN_LINES):
        return gutter
    return None


def _crossings(segments: Sequence[Segment], x0: float, step: float) -> list[int]:
    changes = [0] * (_BINS + 2)
    for segment in segments:
        changes[int((segment.box.x0 - x0) / step)] += 1
        changes[min(int((segment.box.x1 - x0) / step) + 1, _BINS + 1)] -= 1
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
    width = max(segment.box.x1 for segment in segments) - min(segment.box.x0 for segment in segments)
    fill = median(segment.box.width for segment in segments) / width if width > 0 else 0
    characters = median(segment.characters for segment in segments)
    return fill >= _MIN_COLUMN_FILL and characters >= _MIN_COLUMN_CHARACTERS


def _rows(segments: Sequence[Segment]) -> Iterator[list[Segment]]:
    row: list[Segment] = []
    for segment in sorted(segments, key=lambda member: (member.box.y0 + member.box.y1) / 2):
        if row and not _same_height(row[-1].box, segment.box):
            yield row
            row = []
        row.append(segment)
    if row:
        yield row


def _line(row: list[Segment], column: int) -> Line:
    ordered = sorted(row, key=lambda segment: segment.box.x0)
    box = ordered[0].box
    for segment in ordered[1:]:
        box = box.union(segment.box)
    return Line(ordered, box, column)
