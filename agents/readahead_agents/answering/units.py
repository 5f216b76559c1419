"""What passages say, piece by piece: sentences, rows of tables, and what stands over them."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from readahead_agents.answering.rows import in_words, is_row, may_head
from readahead_agents.text import sentences
from readahead_retrieval.relevance import inflected_terms, key_terms, said_terms
from readahead_retrieval.types import Evidence

MAX_UNIT_CHARS = 400
MAX_HEADING_CHARS = 80
CONTEXT_SHARE = 0.5
"""What a word counts that stands not in the unit but in the heading or header above it."""

_FIGURE = re.compile(r"(?<!\w)\d")
_CONJUNCTION = re.compile(r",?\s(?:and|but|while|whereas)\s")
_BROKEN = re.compile(r"(?:,|\b(?:a|an|and|at|by|for|from|in|is|of|on|or|the|to|was|with))$")
"""What no heading ends with: a line or a page broke the sentence."""
# what ends a Korean verb before another ("하고", "하며"), and no noun ("창고", "보고")
_HALVES = re.compile(
    r"[,;?]?\s+(?:and|or|but)\s+|[;?]\s+|그리고\s+|(?<=[가-힣])(?:(?<![광경권금보사신원재참창최충])고(?!\s+[싶있])|며)\s+",
    re.IGNORECASE,
)
_ENDED = re.compile(r"[.!?。！？][\"'”’)\]]*$")


@dataclass(frozen=True, slots=True)
class Unit:
    """A run of a passage: `passage.text[start:end]`."""

    passage: Evidence
    rank: int
    start: int
    end: int
    said: frozenset[str]
    context: frozenset[str]
    """Terms of the document's name, the passage's heading, the line over the unit and a table's header."""
    header: str = ""
    """Of the table, where the unit is a row."""

    @property
    def text(self) -> str:
        return self.passage.text[self.start : self.end]

    @property
    def readable(self) -> str:
        """The text; of a row, the columns' names with its values."""
        return in_words(self.text, self.header) if is_row(self.text) else self.text


@dataclass(frozen=True, slots=True)
class QuestionTerms:
    """The key terms of a question, and how much each tells, by how few of the units hold it."""

    asked: frozenset[str]
    weights: dict[str, float]

    @classmethod
    def of(cls, question: str, found: Sequence[Unit]) -> Self:
        asked = key_terms(question)
        holding = Counter(term for unit in found for term in unit.said & asked)
        return cls(asked, {term: math.log(1 + len(found) / (holding[term] or 0.5)) for term in asked})

    def weight(self, terms: frozenset[str], said: frozenset[str], context: frozenset[str] = frozenset()) -> float:
        """What of `terms`, some of the question's, is said; what only stands over it counts less."""
        held = sum(self.weights[term] for term in terms & said)
        return held + CONTEXT_SHARE * sum(self.weights[term] for term in (terms - said) & context)


def halves(question: str) -> list[frozenset[str]]:
    """What the parts of a question ask for ("who is harbour master, and who leads the crew"); none where it has one."""
    found = [key_terms(part) for part in _HALVES.split(question)]
    return found if len(found) > 1 and all(found) else []


def units(passages: Sequence[Evidence]) -> list[Unit]:
    """The sentences and rows of all passages, each by itself."""
    return [unit for rank, passage in enumerate(passages) for unit in _units(rank, passage, pairs=False)]


def in_forms_of(question: str, found: Iterable[Unit]) -> list[Unit]:
    """The units with the question's Korean verbs among what they say, where they hold other forms of them."""
    return [replace(unit, said=unit.said | inflected_terms(question, unit.text)) for unit in found]


def clauses(passages: Sequence[Evidence]) -> list[Unit]:
    """The units, cut at semicolons too: each says something of its own."""
    return [clause for unit in units(passages) for clause in _cut(unit)]


def statements(passages: Sequence[Evidence]) -> list[Unit]:
    """Runs that can stand for themselves: sentences, pairs of them, rows; headings go with what follows."""
    return [unit for rank, passage in enumerate(passages) for unit in _units(rank, passage, pairs=True)]


def _units(rank: int, passage: Evidence, *, pairs: bool) -> Iterator[Unit]:
    text = passage.text
    parts = sentences(text)
    over, headers = _over(text, parts)
    heading = said_terms(f"{passage.document} {passage.heading}")
    spans = _spans(text, parts) if pairs else [(number, start, end) for number, (start, end) in enumerate(parts)]
    fitting = [span for span in spans if span[2] - span[1] <= MAX_UNIT_CHARS]
    if not parts or not fitting:
        end = min(len(text), MAX_UNIT_CHARS)
        yield Unit(passage, rank, 0, end, said_terms(text[:end]), heading)
        return
    for number, start, end in fitting:
        context = heading | said_terms(f"{over[number]} {headers[number]}")
        yield Unit(passage, rank, start, end, said_terms(text[start:end]), context, headers[number])


def _cut(unit: Unit) -> Iterator[Unit]:
    if is_row(unit.text):
        yield unit
        return
    start = unit.start
    for piece in unit.text.split(";"):
        yield replace(unit, start=start, end=start + len(piece), said=said_terms(piece))
        start += len(piece) + 1


def readable(text: str) -> str:
    """A passage with its rows in words, each with the columns' names: a small model loses them over a few rows."""
    parts = sentences(text)
    _, headers = _over(text, parts)
    written, done = "", 0
    for (start, end), header in zip(parts, headers, strict=True):
        row = text[start:end]
        written += text[done:start] + (in_words(row, header) if header else row)
        done = end
    return written + text[done:]


def coordinated(unit: Unit) -> tuple[frozenset[str], list[Unit]]:
    """The halves of "the valve opens at 44 bar and closes at 12 bar", which say different things of one subject.

    Returns:
        The subject's terms, and the parts that a conjunction joins; the unit alone, where they do not each have a
        figure and words of their own.
    """
    cuts = [0, *(match.end() for match in _CONJUNCTION.finditer(unit.text)), len(unit.text)]
    parts = [unit.text[start:end] for start, end in itertools.pairwise(cuts)]
    if is_row(unit.text) or len(parts) == 1 or not all(map(_says_a_figure, parts)):
        return frozenset(), [unit]
    before = _FIGURE.split(parts[0], maxsplit=1)[0].split()
    while before and not said_terms(before[-1]):
        before.pop()
    spans = zip(parts, cuts, strict=False)
    return said_terms(" ".join(before[:-1])), [
        replace(unit, start=unit.start + start, end=unit.start + start + len(part), said=said_terms(part))
        for part, start in spans
    ]


def _says_a_figure(part: str) -> bool:
    """Whether it has words before its figure: "and 12 bar" goes on with what was said, "and closes at 12 bar" not."""
    figure = _FIGURE.search(part)
    return figure is not None and bool(said_terms(part[: figure.start()]))


def _over(text: str, parts: Sequence[tuple[int, int]]) -> tuple[list[str], list[str]]:
    """What stands over each part: the last line without an end, as headings are, and over rows the table's header."""
    over: list[str] = []
    headers: list[str] = []
    heading = header = ""
    was_row = False
    for number, (start, end) in enumerate(parts):
        part = text[start:end]
        in_table = is_row(part)
        if in_table and not was_row:
            header = part if _is_header(text, parts, number) else ""
        over.append(heading)
        headers.append(header if in_table and header != part else "")
        if not in_table and len(part) <= MAX_HEADING_CHARS and _ENDED.search(part) is None:
            heading = part
        was_row = in_table
    return over, headers


def _spans(text: str, parts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Number of the first part, start and end. Rows stand alone, a header of rows not at all: it has no values."""
    rows = [is_row(text[start:end]) for start, end in parts]
    for number, (start, _) in enumerate(parts):
        if rows[number]:
            begins = number == 0 or not rows[number - 1]
            if not (begins and _is_header(text, parts, number)):
                yield number, start, parts[number][1]
            continue
        last = number
        while _goes_on(text, parts, rows, last) and last < number + 2:
            last += 1
        yield number, start, parts[last][1]
        if last + 1 < len(parts) and not rows[last + 1]:
            last += 1
            if _goes_on(text, parts, rows, last) and _BROKEN.search(text[start : parts[last][1]]):
                last += 1
            yield number, start, parts[last][1]


def _is_header(text: str, parts: Sequence[tuple[int, int]], number: int) -> bool:
    """Whether a table's first row names the columns of the next; a passage may begin in the middle of a table."""
    row, *below = [text[start:end] for start, end in parts[number : number + 2]]
    return bool(below) and is_row(below[0]) and may_head(row, below[0])


def _goes_on(text: str, parts: Sequence[tuple[int, int]], rows: Sequence[bool], number: int) -> bool:
    """Whether a part without an end, as a heading is, is followed by text."""
    start, end = parts[number]
    return number + 1 < len(parts) and not rows[number + 1] and _ENDED.search(text[start:end]) is None
