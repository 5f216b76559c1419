"""From PDF space (points, origin bottom left, unrotated) to the page as it is shown (origin top left)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple


class Rect(NamedTuple):
    """A rectangle with its origin at the top left; in points unless said otherwise."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        return self.y1 - self.y0


@dataclass(frozen=True)
class PageGeometry:
    """A page's visible box (media box cut by crop box) in PDF space, and how it is turned to be shown."""

    left: float
    bottom: float
    right: float
    top: float
    rotation: int
    """Clockwise: 0, 90, 180 or 270."""

    @cached_property
    def width(self) -> float:
        """Of the shown page, in points."""
        return self.top - self.bottom if self.rotation in (90, 270) else self.right - self.left

    @cached_property
    def height(self) -> float:
        return self.right - self.left if self.rotation in (90, 270) else self.top - self.bottom

    def visible(self, boxes: Iterable[Rect]) -> list[Rect | None]:
        """The shown boxes whose middle lies on the shown page, to a point, and None in the others' places."""
        width, height = 2 * self.width + 2, 2 * self.height + 2
        return [box if -2 <= box[0] + box[2] <= width and -2 <= box[1] + box[3] <= height else None for box in boxes]

    def shown(self, left: float, bottom: float, right: float, top: float) -> Rect:
        """A rectangle of PDF space on the shown page, in points."""
        if self.rotation == 0:
            return Rect(left - self.left, self.top - top, right - self.left, self.top - bottom)
        if self.rotation == 90:
            return Rect(bottom - self.bottom, left - self.left, top - self.bottom, right - self.left)
        if self.rotation == 180:
            return Rect(self.right - right, bottom - self.bottom, self.right - left, top - self.bottom)
        return Rect(self.top - top, self.right - right, self.top - bottom, self.right - left)

    def shown_all(self, corners: Sequence[float]) -> Iterator[Rect]:
        """Rectangles of PDF space, four numbers each: left, top, right, bottom."""
        left, top, right, bottom = (corners[side::4] for side in range(4))
        if self.rotation:
            return map(self.shown, left, bottom, right, top)
        # Most pages: the same as `shown`, without a call of Python for each of thousands of words.
        x, y = self.left, self.top
        edges = [v - x for v in left], [y - v for v in top], [v - x for v in right], [y - v for v in bottom]
        return map(partial(tuple.__new__, Rect), zip(*edges, strict=True))


def upright(box: Rect, turn: int, width: float, height: float) -> Rect:
    """A box of a `width` × `height` page after turning the page so that text running at `turn` reads upright.

    `turn` is clockwise: text at 90 runs down the page, at 270 up.
    """
    x0, y0, x1, y1 = box
    if turn == 90:
        return Rect(y0, width - x1, y1, width - x0)
    if turn == 180:
        return Rect(width - x1, height - y1, width - x0, height - y0)
    if turn == 270:
        return Rect(height - y1, x0, height - y0, x1)
    return box
