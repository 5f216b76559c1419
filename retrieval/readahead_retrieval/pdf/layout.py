"""Reading order: words to segments, segments to columns, columns to lines.

The content stream decides only which words stand side by side. Where they stand on the page decides the rest: a
page is cut along the widest gutter that prose respects on both sides (a simplified form of the recursive X-Y cut,
Nagy and Seth 1984), what crosses the gutter (titles, wide figures' captions) divides it into bands, and inside a
column segments on one height form a line. Segments far apart on one line are the cells of a table's row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from readahead_retrieval.pdf.geometry import Rect
from readahead_retrieval.pdf.text import RawWord

_MAX_DEPTH = 3
_BINS = 100
_MIN_COLUMN_LINES = 4
_MIN_FILL = 0.5
"""Share of its column that a line of prose fills; cells of tables are narrower."""
_MIN_PROSE = 0.6
"""Share of a column's characters that stand in such lines."""
_MIN_LINE_CHARACTERS = 14
_GAP = 1.5
"""Of the line height: a wider gap between words parts cells."""
_NUMBER_GAP = 0.55
"""Between two numbers, which stand close only in tables."""


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
    upright = [segment for segment in segments if not segment.words[0].turned]
    turned = [segment for segment in segments if segment.words[0].turned]
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
    if last.turned is not word.turned:
        return False
    first, second = (_turned(last.box), _turned(word.box)) if word.turned else (last.box, word.box)
    if not _same_height(first, second):
        return False
    gap = max(second.x0 - first.x1, first.x0 - second.x1)
    return gap < _widest_space(last, word)


def _widest_space(last: RawWord, word: RawWord) -> float:
    numbers = last.text[-1].isdigit() and word.text[0].isdigit()
    return (_NUMBER_GAP if numbers else _GAP) * max(last.size, word.size)


def _turned(box: Rect) -> Rect:
    return Rect(box.y0, box.x0, box.y1, box.x1)


def _same_height(first: Rect, second: Rect) -> bool:
    overlap = min(first.y1, second.y1) - max(first.y0, second.y0)
    return overlap > 0.4 * min(first.height, second.height)


def _columns(segments: list[Segment], depth: int) -> Iterator[list[Segment]]:
    gutter = _gutter(segments) if depth < _MAX_DEPTH else None
    if gutter is None:
        if segments:
            yield segments
        return
    by_rows: list[Segment] = []
    for band in _bands(segments, gutter):
        left = [segment for segment in band if segment.box.x1 <= gutter]
        right = [segment for segment in band if segment.box.x0 >= gutter]
        if len(left) + len(right) < len(band) or not _are_columns(left, right):
            by_rows += band
            continue
        if by_rows:
            yield by_rows
            by_rows = []
        yield from _columns(left, depth + 1)
        yield from _columns(right, depth + 1)
    if by_rows:
        yield by_rows


def _bands(segments: Sequence[Segment], gutter: float) -> Iterator[list[Segment]]:
    """Runs of segments that cross the gutter, and runs that keep off it, from top to bottom."""
    ordered = sorted(segments, key=lambda segment: segment.box.y0)
    for _, band in groupby(ordered, key=lambda segment: segment.box.x0 < gutter < segment.box.x1):
        yield list(band)


def _are_columns(left: Sequence[Segment], right: Sequence[Segment]) -> bool:
    return len(left) + len(right) >= _MIN_COLUMN_LINES and _is_prose(left, 1) and _is_prose(right, 1)


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
    prose = [
        segment.characters
        for segment in segments
        if segment.box.width >= _MIN_FILL * width and segment.characters >= _MIN_LINE_CHARACTERS
    ]
    return sum(prose) >= _MIN_PROSE * sum(segment.characters for segment in segments)


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
    cells: list[Segment] = []
    for segment in sorted(row, key=lambda member: member.box.x0):
        if cells and segment.box.x0 - cells[-1].box.x1 < _widest_space(cells[-1].words[-1], segment.words[0]):
            # Raised and lowered signs, or words drawn out of order: one cell all the same.
            cells[-1] = Segment(cells[-1].words + segment.words, cells[-1].box.union(segment.box))
        else:
            cells.append(segment)
    box = cells[0].box
    for cell in cells[1:]:
        box = box.union(cell.box)
    return Line(cells, box, column)
