"""Words to segments: runs of words that stand side by side on one line, without a wide gap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
        self._cover(*word.box)

    def extend(self, other: Segment) -> None:
        self.words += other.words
        self.characters += other.characters
        self._cover(other.x0, other.y0, other.x1, other.y1)

    def _cover(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.x0, self.y0 = min(self.x0, x0), min(self.y0, y0)
        self.x1, self.y1 = max(self.x1, x1), max(self.y1, y1)


def to_segments(words: Iterable[RawWord]) -> list[Segment]:
    """Segments in the order of the content stream, which is trusted for what stands side by side."""
    segments: list[Segment] = []
    last: RawWord | None = None
    for word in _without_overprint(words):
        if last is not None and _continues(last, word):
            segments[-1].append(word)
        else:
            segments.append(Segment(word, len(segments)))
        last = word
    return segments


def same_height(y0: float, y1: float, other_y0: float, other_y1: float) -> bool:
    """Whether two vertical extents are those of one line."""
    overlap = min(y1, other_y1) - max(y0, other_y0)
    return overlap > 0.4 * min(y1 - y0, other_y1 - other_y0)


def widest_space(last: RawWord, word: RawWord) -> float:
    """The widest gap, in points, that is still a space between two words of one cell."""
    numbers = last.text[-1].isdigit() and word.text[0].isdigit()
    return (_NUMBER_SPACE if numbers else _SPACE) * max(last.size, word.size)


def _without_overprint(words: Iterable[RawWord]) -> Iterator[RawWord]:
    """Drops a word drawn again on its own place to look bold or shadowed."""
    drawn: dict[tuple[str, int], list[Rect]] = {}
    for word in words:
        row = round(word.box.y0 / 4)
        near = drawn.get((word.text, row))
        if near and any(_covers(box, word.box) for box in near):
            continue
        for neighbour in (row - 1, row, row + 1):
            drawn.setdefault((word.text, neighbour), []).append(word.box)
        yield word


def _covers(first: Rect, second: Rect) -> bool:
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return width > 0.6 * second.width and height > 0.6 * second.height


def _continues(last: RawWord, word: RawWord) -> bool:
    if word.glued:
        return True
    if last.turn != word.turn:
        return False
    sideways = word.turn in (90, 270)
    first, second = (_turned(last.box), _turned(word.box)) if sideways else (last.box, word.box)
    if not same_height(first.y0, first.y1, second.y0, second.y1):
        return False
    gap = max(second.x0 - first.x1, first.x0 - second.x1)
    return gap < widest_space(last, word)


def _turned(box: Rect) -> Rect:
    return Rect(box.y0, box.x0, box.y1, box.x1)
