"""Pages to chunks: passages that are embedded, indexed and quoted as one.

A chunk holds whole sentences and whole table rows of one section, as many as the token limit allows. It begins at a
heading where there is one, repeats the last sentences of the chunk before it, and the header row of a table that it
continues. Its spans say exactly where its text stands: joined, they give the text again, but for white space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from readahead_retrieval.chunk_units import CELL_SEPARATOR, Kind, Unit, units_of
from readahead_retrieval.tokens import TokenCounter
from readahead_retrieval.types import Chunk, Page, PageSpan

PATH_SEPARATOR = " › "

_MAX_BETWEEN_PAGES = 40
"""Tokens of running lines between the rows of a table that goes on over the page."""


def chunk_pages(pages: Sequence[Page], counter: TokenCounter, *, max_tokens: int, overlap_tokens: int) -> list[Chunk]:
    """Chunks of a whole document, in reading order; pages judged garbage take no part.

    Args:
        counter: Counts in the embedding model's tokens.
        max_tokens: Of a chunk's text and its heading together, which are embedded together.
        overlap_tokens: What a chunk repeats of the one before at most, in whole sentences.

    Raises:
        ValueError: `overlap_tokens` leaves no room for anything new.
    """
    chunker = Chunker(counter, max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    return [*chunker.add(pages), *chunker.finish()]


class Chunker:
    """As `chunk_pages`, of a document that comes a few pages at a time."""

    def __init__(self, counter: TokenCounter, *, max_tokens: int, overlap_tokens: int) -> None:
        if not 0 <= overlap_tokens < max_tokens:
            raise ValueError(
                f"overlap_tokens must be at least 0 and below max_tokens={max_tokens}, not {overlap_tokens}"
            )
        self._counter = counter
        self._unit_tokens = max(max_tokens * 3 // 4, 1)
        self._drafts = _Drafts(counter, max_tokens, overlap_tokens)
        self._units = 0

    def add(self, pages: Sequence[Page]) -> list[Chunk]:
        """The chunks that are complete with these pages."""
        for unit in units_of(pages, self._counter, self._unit_tokens, self._units):
            self._drafts.add(unit)
            self._units += 1
        return self._drafts.taken()

    def finish(self) -> list[Chunk]:
        """The chunks that are left."""
        self._drafts.close()
        return self._drafts.taken()


@dataclass(slots=True)
class _Draft:
    """A chunk being filled."""

    heading: str
    tokens: int
    """Of the heading and the units."""
    units: list[Unit] = field(default_factory=list)
    repeated: int = 0
    """Leading units that the chunk before holds too."""

    def put(self, unit: Unit) -> None:
        self.units.append(unit)
        self.tokens += unit.tokens

    @property
    def has_body(self) -> bool:
        return any(unit.kind != "heading" for unit in self.units[self.repeated :])

    def chunk(self) -> Chunk:
        return Chunk(_joined_text(self.units), _joined_spans(self.units), self.heading)


class _Table:
    """The table that rows belong to, which a page may interrupt with its footer, its number and its header."""

    def __init__(self) -> None:
        self.header: Unit | None = None
        self._last: Unit | None = None
        self._between = 0
        """Tokens since the last row that are no row."""

    def see(self, unit: Unit) -> bool:
        """Takes the next unit; whether it is a row that goes on with a table of the page before."""
        if unit.kind != "row":
            self._between += unit.tokens if unit.kind == "prose" else _MAX_BETWEEN_PAGES + 1
            return False
        last, between = self._last, self._between
        self._last, self._between = unit, 0
        if last is not None and between == 0:
            return False
        goes_on = last is not None and between <= _MAX_BETWEEN_PAGES and self._is_next_page(last, unit)
        if not goes_on:
            self.header = unit
        return goes_on

    def _is_next_page(self, last: Unit, row: Unit) -> bool:
        """Rows of another width, or the same header again, begin a table of their own."""
        header = self.header
        return (
            header is not None
            and row.span.page == last.span.page + 1
            and row.text.count(CELL_SEPARATOR) == header.text.count(CELL_SEPARATOR)
            and row.text != header.text
        )


class _Drafts:
    """Puts units into chunks."""

    def __init__(self, counter: TokenCounter, max_tokens: int, overlap_tokens: int) -> None:
        self._counter = counter
        self._max_tokens = max_tokens
        self._overlap_tokens = overlap_tokens
        self._path: list[Unit] = []
        self._table = _Table()
        self._draft = self._new_draft(())
        self._chunks: list[Chunk] = []

    def add(self, unit: Unit) -> None:
        goes_on = self._table.see(unit)
        if unit.kind == "heading":
            self._begin_section(unit)
        elif not self._fits(unit):
            self._begin_chunk(unit)
        elif goes_on:
            self._repeat_header(unit)
        self._draft.put(unit)

    def _repeat_header(self, row: Unit) -> None:
        """Before the first row on a page, where the draft does not hold it and there is room for both."""
        for header in self._overlap(row):
            held = any(unit.index == header.index for unit in self._draft.units)
            if not held and self._draft.tokens + header.tokens + row.tokens <= self._max_tokens:
                self._draft.put(header)

    def taken(self) -> list[Chunk]:
        """What is complete; it is given out once."""
        chunks, self._chunks = self._chunks, []
        return chunks

    def _fits(self, unit: Unit) -> bool:
        return self._draft.tokens + unit.tokens <= self._max_tokens

    def _begin_section(self, heading: Unit) -> None:
        while self._path and self._path[-1].level >= heading.level:
            self._path.pop()
        draft = self._draft
        # A low heading, which may be no more than a bold line, does not part what is still short.
        parts = heading.level <= 2 or draft.tokens > self._max_tokens // 3
        if (draft.has_body and parts) or not self._fits(heading):
            self.close()
        if not self._draft.units:
            self._draft = self._new_draft(self._path)
        self._path.append(heading)

    def _begin_chunk(self, unit: Unit) -> None:
        """Closes the draft and opens the next with what belongs before `unit` there."""
        units = self._draft.units
        headings = _trailing(units, "heading") if self._draft.has_body else []
        if headings:
            del units[-len(headings) :]
        before = headings or self._overlap(unit)
        self.close()
        moved = {heading.index for heading in headings}
        self._draft = self._new_draft([heading for heading in self._path if heading.index not in moved])
        if self._draft.tokens + sum(member.tokens for member in before) + unit.tokens <= self._max_tokens:
            for member in before:
                self._draft.put(member)
            self._draft.repeated = 0 if headings else len(before)
        else:
            self._keep_headings(headings)

    def _keep_headings(self, headings: Sequence[Unit]) -> None:
        """Headings too long to stand before the next unit become a chunk of their own: no text is dropped."""
        if headings:
            self._chunks.append(Chunk(_joined_text(headings), _joined_spans(headings), ""))

    def _overlap(self, unit: Unit) -> list[Unit]:
        if unit.kind == "row":
            header = self._table.header
            repeatable = header is not None and header.index != unit.index and header.tokens <= self._max_tokens // 3
            return [header] if header is not None and repeatable else []
        kept: list[Unit] = []
        left = self._overlap_tokens
        for member in reversed(_trailing(self._draft.units, "prose")):
            left -= member.tokens
            if left < 0:
                break
            kept.insert(0, member)
        return kept

    def close(self) -> None:
        if len(self._draft.units) > self._draft.repeated:
            self._chunks.append(self._draft.chunk())
        self._draft = self._new_draft(self._path)

    def _new_draft(self, path: Sequence[Unit]) -> _Draft:
        heading = self._path_text(path)
        return _Draft(heading, self._counter.count(f"{heading}\n") if heading else 0)

    def _path_text(self, path: Sequence[Unit]) -> str:
        """The innermost headings, as many as a quarter of the chunk holds."""
        kept = ""
        for heading in reversed(path):
            longer = f"{heading.text}{PATH_SEPARATOR}{kept}" if kept else heading.text
            if self._counter.count(f"{longer}\n") > self._max_tokens // 4:
                break
            kept = longer
        return kept


def _trailing(units: Sequence[Unit], kind: Kind) -> list[Unit]:
    first = len(units)
    while first and units[first - 1].kind == kind:
        first -= 1
    return list(units[first:])


def _joined_text(units: Sequence[Unit]) -> str:
    parts = [units[0].text]
    for previous, unit in pairwise(units):
        touches = previous.span.page == unit.span.page and previous.span.end == unit.span.start
        parts.append("" if touches else "\n" if unit.new_line else " ")
        parts.append(unit.text)
    return "".join(parts)


def _joined_spans(units: Sequence[Unit]) -> tuple[PageSpan, ...]:
    spans = [units[0].span]
    for previous, unit in pairwise(units):
        last = spans[-1]
        if unit.index == previous.index + 1 and unit.span.page == last.page:
            spans[-1] = PageSpan(last.page, last.start, unit.span.end)
        else:
            spans.append(unit.span)
    return tuple(spans)
