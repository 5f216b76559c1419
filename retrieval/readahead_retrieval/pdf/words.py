"""A word as the layout takes it, whoever found it: PDFium or text recognition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from readahead_retrieval.pdf.geometry import Rect, upright


@dataclass(slots=True)
class RawWord:
    """A cleaned word, on the shown page in points."""

    text: str
    shown: Rect
    """Where it stands on the shown page."""
    box: Rect
    """The same; after `turn_upright` on the page turned so that most of its text is upright."""
    size: float
    """Height of the font's line, in points."""
    bold: bool
    turn: int
    """Of its writing against the upright, clockwise: 0, 90, 180 or 270."""
    glued: bool
    """No white space before it."""
    hyphenated: bool
    """Broken by a hyphen at the end of its line; the hyphen is not in `text`."""


def turn_upright(words: Sequence[RawWord], width: float, height: float) -> None:
    """Makes the direction that most of a `width` × `height` page is written in the upright one."""
    characters: Counter[int] = Counter()
    for word in words:
        characters[word.turn] += len(word.text)
    main = max(characters, key=characters.__getitem__, default=0)
    if main:
        for word in words:
            word.box = upright(word.shown, main, width, height)
            word.turn = (word.turn - main) % 360
