"""Rows of a region that is not divided into columns of prose.

The content stream tells what belongs together: segments that follow each other there and stand one below the other
form a block, such as a paragraph, a heading in the margin or a cell of several lines. Blocks on one height are the
cells of a table's row, unless one of them is running prose: then they are read one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from readahead_retrieval.pdf.segments import Segment, same_height, widest_space

_PROSE_LINES = 3
_PROSE_CHARACTERS = 25
_MAX_CELL_LINES = 4
_MIN_WRAPPED_CHARACTERS = 12
"""Of a line of words that goes on in the next one of its cell; what stands over a column of figures is shorter."""
_MAX_SIZE_CHANGE = 0.25
"""Of the larger line height: a heading is no line of the cell below it."""
_MAX_PITCH = 1.8
"""Of the line height: lines further apart do not belong to one block."""


@dataclass(slots=True)
class Block:
    """Lines that stand one below the other."""

    segments: list[Segment]
    x0: float
    y0: float
    x1: float
    y1: float

    @classmethod
    def of(cls, segment: Segment) -> Block:
        return cls([segment], segment.x0, segment.y0, segment.x1, segment.y1)

    def append(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.x0, self.y0 = min(self.x0, segment.x0), min(self.y0, segment.y0)
        self.x1, self.y1 = max(self.x1, segment.x1), max(self.y1, segment.y1)

    @property
    def is_prose(self) -> bool:
        lines = [segment.characters for segment in self.segments]
        return len(lines) >= _PROSE_LINES and median(lines) >= _PROSE_CHARACTERS


Row = list[Segment]
"""The cells of a line, from left to right."""


def to_rows(region: Sequence[Segment]) -> Iterator[list[Row]]:
    """Runs of rows in reading order; only within a run may a paragraph go on from row to row."""
    run: list[Row] = []
    for group in _groups(_blocks(region)):
        if not any(block.is_prose for block in group):
            run += _table_rows(group)
            continue
        stacks = list(_stacks(group))
        if len(stacks) == 1:
            run += _lines(stacks[0])
            continue
        if run:
            yield run
            run = []
        yield from (list(_lines(stack)) for stack in stacks)
    if run:
        yield run


def _blocks(region: Sequence[Segment]) -> list[Block]:
    blocks: list[Block] = []
    for segment in sorted(region, key=lambda member: member.order):
        if blocks and _stands_below(blocks[-1], segment):
            blocks[-1].append(segment)
        else:
            blocks.append(Block.of(segment))
    return blocks


def _stands_below(block: Block, segment: Segment) -> bool:
    last = block.segments[-1]
    size = max(last.size, segment.size)
    if abs(last.size - segment.size) > _MAX_SIZE_CHANGE * size:
        return False
    pitch = (segment.y0 + segment.y1 - last.y0 - last.y1) / 2
    if not 0.6 * size < pitch < _MAX_PITCH * size:
        return False
    overlap = min(block.x1, segment.x1) - max(block.x0, segment.x0)
    return overlap > 0.5 * min(block.x1 - block.x0, segment.width)


def _groups(blocks: list[Block]) -> Iterator[list[Block]]:
    """Blocks on one height, from top to bottom."""
    group: list[Block] = []
    y0 = y1 = 0.0
    for block in sorted(blocks, key=lambda member: member.y0 + min(member.y1, member.y0 + 4)):
        if group and not same_height(y0, y1, block.y0, block.y1):
            yield group
            group = []
        y0, y1 = (min(y0, block.y0), max(y1, block.y1)) if group else (block.y0, block.y1)
        group.append(block)
    if group:
        yield group


def _stacks(group: list[Block]) -> Iterator[list[Segment]]:
    """Blocks one below the other, from left to right."""
    stack: list[Segment] = []
    x1 = 0.0
    for block in sorted(group, key=lambda member: member.x0):
        if stack and block.x0 >= x1:
            yield stack
            stack = []
        x1 = max(x1, block.x1) if stack else block.x1
        stack += block.segments
    yield stack


def _table_rows(group: list[Block]) -> Iterator[Row]:
    segments = [segment for block in group for segment in block.segments]
    if len(group) == 1 or _are_lines_rows(group):
        yield from _lines(segments)
        return
    cells = []
    for block in sorted(group, key=lambda member: member.x0):
        cell = block.segments[0]
        for segment in block.segments[1:]:
            cell.extend(segment)
        cells.append(cell)
    yield _joined(cells)


def _are_lines_rows(group: list[Block]) -> bool:
    """Whether each line is a row, so that blocks are columns, and not each block a cell of several lines."""
    lines = [len(block.segments) for block in group]
    if max(lines) == 1 or max(lines) > _MAX_CELL_LINES or min(lines) == max(lines):
        return True
    return any(_begins_row(above, line) for block in group for above, line in pairwise(block.segments))


def _begins_row(above: Segment, line: Segment) -> bool:
    """Whether a line below another is a figure of its own, and not what a sentence that was wrapped goes on with."""
    if not line.words[0].text[0].isdigit():
        return False
    is_flush = abs(line.x0 - above.x0) < 0.3 * line.size
    wraps = above.characters >= _MIN_WRAPPED_CHARACTERS and not above.words[0].text[0].isdigit()
    return not (is_flush and wraps)


def _lines(segments: Sequence[Segment]) -> Iterator[Row]:
    """Segments on one height, from top to bottom."""
    row: Row = []
    for segment in sorted(segments, key=lambda member: member.y0 + member.y1):
        if row and not same_height(row[-1].y0, row[-1].y1, segment.y0, segment.y1):
            yield _joined(row)
            row = []
        row.append(segment)
    if row:
        yield _joined(row)


def _joined(row: Row) -> Row:
    """Cells from left to right; those closer than a gap are one (raised signs, words drawn out of order)."""
    cells: Row = []
    for segment in sorted(row, key=lambda member: member.x0):
        if cells and segment.x0 - cells[-1].x1 < widest_space(cells[-1].words[-1], segment.words[0]):
            cells[-1].extend(segment)
        else:
            cells.append(segment)
    return cells
