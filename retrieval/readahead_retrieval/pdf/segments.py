"""Words to segments: runs of words that stand side by side on one line, without a wide gap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from readahead_retrieval.pdf.geometry import Rect
from readahead_retrieval.pdf.words import RawWord

_SPACE = 1.5
"""Of the line height: a wider gap between words parts cells."""
_NUMBER_SPACE = 0.55
"""Between two numbers, which stand close only in tables."""


class Segment:
    """Words of one line, or of one cell, and the box around them in points, origin top left."""

    __slots__ = ("characters", "order", "words", "x0", "x1", "y0", "y1")

    def __init__(self, word: RawWord, order: int) -> None:
        self.words = [word]
        self.order = order
        """Place in the content stream."""
        self.characters = len(word.text)
        self.x0, self.y0, self.x1, self.y1 = word.box

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0

    @property
    def size(self) -> float:
        """Line height of its font."""
        return self.words[0].size

    def append(self, word: RawWord) -> None:
        self.words.append(word)
        self.characters += len(word.text)
        x0, y0, x1, y1 = word.box  # written out, as in the functions below: they run for every word of every page
        if x0 < self.x0:
            self.x0 = x0
        if y0 < self.y0:
            self.y0 = y0
        if x1 > self.x1:
            self.x1 = x1
        if y1 > self.y1:
            self.y1 = y1

    def extend(self, other: Segment) -> None:
        self.words += other.words
        self.characters += other.characters
        self.x0, self.y0 = min(self.x0, other.x0), min(self.y0, other.y0)
        self.x1, self.y1 = max(self.x1, other.x1), max(self.y1, other.y1)


def to_segments(words: Iterable[RawWord]) -> list[Segment]:
    """Segments in the order of the content stream, which is trusted for what stands side by side."""
    segments: list[Segment] = []
    segment: Segment | None = None
    last: RawWord | None = None
    for word in _without_overprint(words):
        if last is not None and segment is not None and _continues(last, word):
            segment.append(word)
        else:
            segment = Segment(word, len(segments))
            segments.append(segment)
        last = word
    return segments


def same_height(y0: float, y1: float, other_y0: float, other_y1: float) -> bool:
    """Whether two vertical extents are those of one line."""
    height, other_height = y1 - y0, other_y1 - other_y0
    overlap = (y1 if y1 < other_y1 else other_y1) - (y0 if y0 > other_y0 else other_y0)
    return overlap > 0.4 * (height if height < other_height else other_height)


def widest_space(last: RawWord, word: RawWord) -> float:
    """The widest gap, in points, that is still a space between two words of one cell."""
    size = last.size if last.size > word.size else word.size
    if word.text[0].isdigit() and last.text[-1].isdigit():
        return _NUMBER_SPACE * size
    return _SPACE * size


def _without_overprint(words: Iterable[RawWord]) -> Iterator[RawWord]:
    """Drops a word drawn again on its own place to look bold or shadowed."""
    drawn: dict[str, dict[int, list[Rect]]] = {}
    for word in words:
        row = int(word.box[1] / 4)
        rows = drawn.get(word.text)
        if rows is None:
            drawn[word.text] = {row: [word.box]}
        elif _is_drawn(rows, row, word.box):
            continue
        else:
            rows.setdefault(row, []).append(word.box)
        yield word


def _is_drawn(rows: Mapping[int, list[Rect]], row: int, box: Rect) -> bool:
    return any(_covers(other, box) for near in (row - 1, row, row + 1) if near in rows for other in rows[near])


def _covers(first: Rect, second: Rect) -> bool:
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return width > 0.6 * second.width and height > 0.6 * second.height


def _continues(last: RawWord, word: RawWord) -> bool:
    if word.glued:
        return True
    if last.turn != word.turn:
        return False
    first, second = last.box, word.box
    if word.turn in (90, 270):
        first, second = _turned(first), _turned(second)
    x0, y0, x1, y1 = first
    other_x0, other_y0, other_x1, other_y1 = second
    if not same_height(y0, y1, other_y0, other_y1):
        return False
    after, before = other_x0 - x1, x0 - other_x1
    return (after if after > before else before) < widest_space(last, word)


def _turned(box: Rect) -> Rect:
    return Rect(box.y0, box.x0, box.y1, box.x1)
