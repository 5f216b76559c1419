"""Pages to units: the sentences, table rows and headings that a chunk holds whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from readahead_retrieval.sentences import sentence_spans
from readahead_retrieval.tokens import TokenCounter
from readahead_retrieval.types import Page, PageQuality, PageSpan

CELL_SEPARATOR = " | "

Kind = Literal["heading", "row", "prose"]


@dataclass(frozen=True, slots=True)
class Unit:
    """What is never divided: a sentence, a row, a heading; or a piece of one that is longer than a chunk."""

    index: int
    """In the document."""
    kind: Kind
    text: str
    span: PageSpan
    tokens: int
    new_line: bool
    """It begins a paragraph."""
    level: int = 0
    """Of a heading."""


def units_of(pages: Sequence[Page], counter: TokenCounter, max_tokens: int, index: int) -> Iterator[Unit]:
    """The units of pages in reading order, numbered from `index` on; pages judged garbage have none.

    Args:
        max_tokens: Of a unit; what is longer is cut between words and, where a word is too long, inside it.
    """
    for page in pages:
        if page.quality is PageQuality.GARBAGE:
            continue
        for kind, level, spans in _runs(page):
            for position, (start, end) in enumerate(_fitting(page.text, spans, counter, max_tokens)):
                text = page.text[start:end]
                # Counted with the white space before it, which byte-level vocabularies make part of the first token.
                tokens = counter.count(f" {text}" if position else f"\n{text}")
                yield Unit(index, kind, text, PageSpan(page.number, start, end), tokens, position == 0, level)
                index += 1


def _runs(page: Page) -> Iterator[tuple[Kind, int, list[tuple[int, int]]]]:
    """Each line of a page: what it is, its level as a heading, and its indivisible parts."""
    headings = {heading.start: heading for heading in page.headings}
    for start, end in _lines(page.text):
        line = page.text[start:end]
        heading = headings.get(start)
        if heading is not None:
            yield "heading", heading.level, [(start, end)]
        elif CELL_SEPARATOR in line:
            yield "row", 0, [(start, end)]
        else:
            yield "prose", 0, [(start + left, start + right) for left, right in sentence_spans(line)]


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        left, right = start + len(line) - len(line.lstrip()), start + len(line.rstrip())
        if right > left:
            yield left, right
        start = end + 1


def _fitting(
    text: str, spans: Sequence[tuple[int, int]], counter: TokenCounter, max_tokens: int
) -> Iterator[tuple[int, int]]:
    """The spans, those that are too long cut between words and, where a word is too long, inside it."""
    for start, end in spans:
        while end - start > 1 and counter.count(text[start:end]) > max_tokens:
            cut = _longest_fit(text, start, end, counter, max_tokens)
            yield start, cut
            start = cut + len(text[cut:end]) - len(text[cut:end].lstrip())
        yield start, end


def _longest_fit(text: str, start: int, end: int, counter: TokenCounter, max_tokens: int) -> int:
    low, step = start + 1, 2 * max_tokens  # one character is taken even where it exceeds the limit
    while low + step < end and counter.count(text[start : low + step]) <= max_tokens:
        low, step = low + step, 2 * step
    high = min(low + step, end - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count(text[start:middle]) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    space = text.rfind(" ", start, low + 1)
    return start + len(text[start : space if space > start else low].rstrip())
