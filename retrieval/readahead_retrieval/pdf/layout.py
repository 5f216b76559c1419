"""Reading order: words to segments, segments to columns, columns to lines."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_retrieval.pdf.columns import to_columns
from readahead_retrieval.pdf.rows import Row, to_rows
from readahead_retrieval.pdf.segments import Segment, to_segments
from readahead_retrieval.pdf.words import RawWord


class Line:
    """A line of a column: one cell for prose, several for a row of a table."""

    __slots__ = ("cells", "characters", "column", "size", "x0", "x1", "y0", "y1")

    def __init__(self, cells: Row, column: int) -> None:
        self.cells = cells
        self.column = column
        """Lines of one column follow each other. Below 0 for text that runs up or down the page."""
        self.characters = sum(cell.characters for cell in cells)
        self.size = max(cells, key=_characters).size
        self.x0, self.x1 = cells[0].x0, max(cell.x1 for cell in cells)
        self.y0, self.y1 = min(cell.y0 for cell in cells), max(cell.y1 for cell in cells)

    @property
    def bold(self) -> bool:
        return all(word.bold for cell in self.cells for word in cell.words)


def arrange(words: Sequence[RawWord]) -> list[Line]:
    """Lines in reading order."""
    segments = to_segments(words)
    upright = [segment for segment in segments if not segment.words[0].turn]
    turned = [segment for segment in segments if segment.words[0].turn]
    columns = (rows for region in to_columns(upright) for rows in to_rows(region))
    lines = [Line(row, column) for column, rows in enumerate(columns) for row in rows]
    # Text that runs along the margin is read last, each run by itself.
    return lines + [Line([segment], -1 - index) for index, segment in enumerate(turned)]


def _characters(segment: Segment) -> int:
    return segment.characters
