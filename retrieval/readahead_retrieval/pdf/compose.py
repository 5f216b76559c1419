"""Lines to the text of a page: paragraphs, headings and table rows, with the words' offsets in it.

Lines of a paragraph are joined by a space, paragraphs by a line break, and the cells of a table's row by " | ".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from readahead_retrieval.pdf.clean import keeps_hyphen, title_key
from readahead_retrieval.pdf.layout import Line
from readahead_retrieval.pdf.segments import Segment
from readahead_retrieval.pdf.words import RawWord

CELL_SEPARATOR = " | "
MAX_HEADING_CHARACTERS = 120
MAX_BOLD_HEADING_CHARACTERS = 80
MAX_HEADING_LINES = 3
MAX_BOLD_SHARE = 0.3
"""Where more of the text is bold, bold letters say nothing."""

_LABEL = re.compile(r"(?:[•◦▪■□●○◆▶–—*·-]|\(?(?:\d{1,3}|[A-Za-z])[.)]|[①-⑳]|\d{1,2}(?:\.\d+)*\.?)\Z")
_NUMBER = re.compile(r"\d{1,2}\Z")
_NO_HEADING = re.compile(r"\.\.\.|[.,;]\Z")  # an entry of a table of contents, or a sentence
_HAS_WORDS = re.compile(r"[^\W\d_]{2}")
_ENDS_SENTENCE = re.compile(r"[.!?:;。！？][\"'”’)\]]*(?:\[\d{1,3}\])*\Z")  # or the mark of its note
_NOTE_MARK = re.compile("[⁰¹²³⁴-⁹]+\\Z")
_WRITTEN_WITHOUT_SPACES = re.compile("[\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60]")


class BodyFont:
    """The size and weight that most text has, over the pages seen so far."""

    def __init__(self) -> None:
        self._sizes: Counter[float] = Counter()
        self._bold = 0

    def see(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._sizes[round(line.size, 1)] += line.characters
            self._bold += line.characters if line.bold else 0

    def heading_levels(self, lines: Sequence[Line]) -> list[int | None]:
        """For each line its level as a heading, 1–3, or None for the body."""
        body = self._sizes.most_common(1)[0][0] if self._sizes else 0.0
        bold_tells = self._bold < MAX_BOLD_SHARE * self._sizes.total()
        levels = [_level(line, line.size / body if body else 1.0, bold_tells) for line in lines]
        first = 0
        for index in range(1, len(levels) + 1):
            if index == len(levels) or levels[index] != levels[first]:
                if index - first > MAX_HEADING_LINES:
                    levels[first:index] = [None] * (index - first)  # a paragraph in large or bold letters
                first = index
        return levels


def _level(line: Line, ratio: float, bold_tells: bool) -> int | None:
    """Level of a line whose type is `ratio` times as high as the body's."""
    larger = ratio >= 1.13
    bolder = bold_tells and line.bold and ratio > 0.95
    limit = MAX_HEADING_CHARACTERS if larger else MAX_BOLD_HEADING_CHARACTERS
    if not (larger or bolder) or line.characters > limit or len(_joined_cells(line)) > 1:
        return None
    text = _line_text(line)
    if _NO_HEADING.search(text) or not _HAS_WORDS.search(text):
        return None
    if not larger:
        return 3
    return 1 if ratio >= 1.45 else 2


@dataclass(slots=True)
class Composed:
    """A page's text and what lies in it."""

    text: str = ""
    words: list[float] = field(default_factory=list)
    """Six numbers for each word: start, end, x0, y0, x1, y1, as frames carry them."""
    headings: list[tuple[int, int, int]] = field(default_factory=list)
    """Start, end, level."""


@dataclass(frozen=True, slots=True)
class _Column:
    left: float
    right: float
    pitch: float
    """Usual distance of its lines."""


def compose(
    lines: Sequence[Line], width: float, height: float, font: BodyFont, titles: Mapping[str, int] | None = None
) -> Composed:
    """Writes a page of `width` × `height` points; the words' boxes are normalised to 0–1.

    Args:
        titles: What the outline calls headings on this page, by `title_key`, and their levels.
    """
    font.see(lines)
    columns = _columns(lines)
    writer = _Writer(width, height)
    levels = font.heading_levels(lines)
    for index, level in _outlined(lines, titles or {}):
        levels[index] = level
    for index, line in enumerate(lines):
        continues = index > 0 and levels[index] == levels[index - 1] and _continues(lines[index - 1], line, columns)
        if index > 0:
            writer.separate(lines[index - 1], line, continues)
        writer.write_line(line, levels[index], continues)
    return writer.finish()


def _outlined(lines: Sequence[Line], titles: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """For each title the line that shows it, the largest where a running header repeats it, and its level."""
    if not titles:
        return
    keys = [title_key(_line_text(line)) for line in lines]
    for title, level in titles.items():
        shown = [index for index, key in enumerate(keys) if key == title]
        if shown:
            yield max(shown, key=lambda index: lines[index].size), level


def _line_text(line: Line) -> str:
    return " ".join(word.text for cell in line.cells for word in cell.words)


def _columns(lines: Sequence[Line]) -> dict[int, _Column]:
    members: dict[int, list[Line]] = {}
    for line in lines:
        members.setdefault(line.column, []).append(line)
    columns = {}
    for column, group in members.items():
        pitches = [_pitch(above, below) for above, below in pairwise(group)]
        columns[column] = _Column(
            left=min(line.x0 for line in group),
            right=max(line.x1 for line in group),
            pitch=median(pitches) if pitches else 0.0,
        )
    return columns


def _pitch(above: Line, below: Line) -> float:
    return (below.y0 + below.y1 - above.y0 - above.y1) / 2


def _continues(previous: Line, line: Line, columns: dict[int, _Column]) -> bool:
    """Whether `line` goes on with the paragraph, or the heading, of `previous`."""
    if len(_joined_cells(previous)) > 1 or len(_joined_cells(line)) > 1:
        return False
    first = line.cells[0].words[0]
    last = previous.cells[-1].words[-1]
    if last.hyphenated:
        return True
    ended = bool(_ENDS_SENTENCE.search(_before_note(previous.cells[-1].words).text))
    if line.column != previous.column:
        return line.column >= 0 and not ended and first.text[:1].islower()
    column = columns[line.column]
    if _LABEL.match(first.text) and not _is_wrapped_number(previous, line, column, ended):
        return False
    return not _begins_paragraph(previous, line, column, ended)


def _before_note(words: Sequence[RawWord]) -> RawWord:
    """The last word that is not the mark of a note."""
    return words[-2] if len(words) > 1 and _NOTE_MARK.match(words[-1].text) else words[-1]


def _is_wrapped_number(previous: Line, line: Line, column: _Column, ended: bool) -> bool:
    """Whether a bare number that begins a line is a word of the sentence above ("given by lot on | 15 August"), which
    fills its line, and not the label of an entry in a list, the one above which begins with a number too."""
    if ended or _is_short(previous, column) or not _NUMBER.match(line.cells[0].words[0].text):
        return False
    is_flush = abs(line.x0 - previous.x0) < 0.7 * line.size
    return is_flush and not _LABEL.match(previous.cells[0].words[0].text)


def _begins_paragraph(previous: Line, line: Line, column: _Column, ended: bool) -> bool:
    pitch = _pitch(previous, line)
    if pitch > 1.35 * column.pitch and pitch > 1.2 * line.size:
        return True
    if abs(line.size - previous.size) > 0.25 * previous.size:
        return True
    short = _is_short(previous, column)
    indented = line.x0 - previous.x0 > 0.7 * line.size
    if ended:
        return short or indented
    # Behind the last entry of a list, which seldom has a full stop; a full line goes on below its number.
    outdented = previous.x0 - line.x0 > 0.3 * line.size
    return short and outdented and bool(_LABEL.match(previous.cells[0].words[0].text))


def _is_short(line: Line, column: _Column) -> bool:
    """Whether it ends well before the column's edge."""
    return line.x1 < column.right - 0.15 * (column.right - column.left)


def _joined_cells(line: Line) -> list[list[Segment]]:
    """The cells of a line; a bullet or a number stands in one cell with what it labels."""
    cells = [[segment] for segment in line.cells]
    if len(cells) == 2 and _is_label(*line.cells):
        return [line.cells]
    return cells


def _is_label(first: Segment, second: Segment) -> bool:
    return not second.words[0].text[0].isdigit() and bool(_LABEL.match(" ".join(word.text for word in first.words)))


def _between(last: RawWord, first: RawWord) -> str:
    """What parts two words of one paragraph or cell."""
    if last.hyphenated:
        return "-" if keeps_hyphen(last.text, first.text) and not last.text.endswith("-") else ""
    if _WRITTEN_WITHOUT_SPACES.match(last.text[-1]) and _WRITTEN_WITHOUT_SPACES.match(first.text[0]):
        return ""
    return " "


class _Writer:
    def __init__(self, width: float, height: float) -> None:
        self._width = width
        self._height = height
        self._parts: list[str] = []
        self._length = 0
        self._page = Composed()

    def separate(self, previous: Line, line: Line, continues: bool) -> None:
        """Writes what stands between two lines."""
        last = previous.cells[-1].words[-1]
        if continues:
            self._write(_between(last, line.cells[0].words[0]))
        else:
            self._write("-\n" if last.hyphenated else "\n")

    def write_line(self, line: Line, level: int | None, continues: bool) -> None:
        start = self._length
        for index, cell in enumerate(_joined_cells(line)):
            self._write(CELL_SEPARATOR if index else "")
            for position, segment in enumerate(cell):
                self._write(" " if position else "")
                self._write_segment(segment)
        if level is None:
            return
        if continues and self._page.headings:
            start = self._page.headings.pop()[0]
        self._page.headings.append((start, self._length, level))

    def _write_segment(self, segment: Segment) -> None:
        previous = segment.words[0]
        self._write_word(previous)
        for word in segment.words[1:]:
            if not word.glued:
                same_line = word.box[1] < previous.box[3]
                self._write(" " if same_line and not previous.hyphenated else _between(previous, word))
            self._write_word(word)
            previous = word

    def _write_word(self, word: RawWord) -> None:
        start, width, height = self._length, self._width, self._height
        self._write(word.text)
        x0, y0, x1, y1 = word.shown
        if x0 < 0 or y0 < 0 or x1 > width or y1 > height:  # cut by the edge of the page
            x0, x1 = min(max(x0, 0.0), width), min(max(x1, 0.0), width)
            y0, y1 = min(max(y0, 0.0), height), min(max(y1, 0.0), height)
        self._page.words += (start, self._length, x0 / width, y0 / height, x1 / width, y1 / height)

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def finish(self) -> Composed:
        self._page.text = "".join(self._parts)
        return self._page
