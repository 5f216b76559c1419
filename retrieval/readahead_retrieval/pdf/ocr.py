"""The seam for text recognition: from the picture of a page to words with their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from readahead_retrieval.types import Box


@dataclass(frozen=True, slots=True)
class OcrWord:
    """A word that was recognised."""

    text: str
    box: Box
    """In the picture: 0–1, origin top left."""
    line: int
    """Words of one line have the same number; lines are numbered in reading order."""
    line_height: float
    """Usual height of its paragraph's lines, across the writing, as a share of the picture's height."""
    turn: int
    """Clockwise: 0, 90 for text that runs down the picture, 270 for text that runs up."""
    glued: bool
    """No white space before it."""
    confidence: float
    """0–1, the engine's own."""


class OcrFailed(Exception):
    """The engine could not read this picture: it took too long, or broke."""


class OcrEngine(Protocol):
    """Recognises the words of a page.

    Calls may run at the same time; each is bounded in time and memory, and cancelling one ends whatever it started.
    """

    @property
    def missing(self) -> str:
        """Why nothing is ever recognised, in a sentence that names the mend; empty for an engine that works."""
        ...

    async def recognise(self, png: bytes) -> Sequence[OcrWord]:
        """The words in reading order; none for a picture without text.

        Raises:
            OcrFailed: For this picture; others may be read.
        """
        ...


class NoOcr:
    """Recognises nothing: pages without a text layer stay unread, and say why."""

    def __init__(self, missing: str) -> None:
        self._missing = missing

    @property
    def missing(self) -> str:
        return self._missing

    async def recognise(self, png: bytes) -> Sequence[OcrWord]:
        return ()
