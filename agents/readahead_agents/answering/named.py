"""What a question calls by its name, and whether the passages know it: codes, single letters, articles, years, names.

A weak model answers for error E31 from the row of E30, and for zone F from that of zone A. Words may be said in other
words; a name may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from readahead_agents.answering.rows import cells, is_row
from readahead_retrieval.relevance import said_terms
from readahead_retrieval.types import Evidence

MAX_SIBLINGS = 4
"""Others of its kind that are told."""

_CODE = re.compile(r"(?<![\w-])([A-Za-z]{1,3})-?(\d{1,5})(?!\w|-\d|[.,]\d)")
_KOREAN = re.compile(r"제\s?(\d{1,4})\s?([조장절항])")
_LETTERED = re.compile(r"(?<![\w-])([A-Za-z][a-z]{2,}) ([A-HJ-Z])(?![\w'’&.-])")
_YEAR = re.compile(r"(?<![\d.,])(?:1[5-9]|20)\d\d(?![\d.,]\d|\d)")
_CAPITAL = re.compile(r"(?<=[\w,;:] )[A-Z][\w’'-]+(?: [A-Z][\w’'-]+)*")
_WORD = re.compile(r"[^\W\d_]{2,}")
_LETTER = " letter"
_ROW = "row"
MAX_CAPITAL_SHARE = 0.5
"""Of a question's words; where more are capital it is a heading, or shouted, and capitals tell nothing."""


@dataclass(frozen=True, slots=True)
class Name:
    """One name, and of which kind it is: others of the kind are not it."""

    kind: str
    value: str
    shown: str
    """As the text has it."""

    @classmethod
    def code(cls, match: re.Match[str]) -> Self:
        prefix = match.group(1).upper()
        return cls(prefix, f"{prefix}{match.group(2)}", match.group())


def labels(text: str) -> list[Name]:
    """The codes ("E31"), lettered things ("zone F") and numbered articles ("제12조") of a text."""
    korean = (Name(f"제{m.group(2)}", f"제{m.group(1)}{m.group(2)}", m.group()) for m in _KOREAN.finditer(text))
    lettered = (Name(_lettered(m.group(1)), m.group(2), m.group(2)) for m in _LETTERED.finditer(text))
    return [*map(Name.code, _CODE.finditer(text)), *korean, *lettered, *_rows_letters(text)]


def names(question: str) -> list[Name]:
    """What a question names, besides: its years, and its proper names, by their capitals."""
    years = [Name("year", match.group(), match.group()) for match in _YEAR.finditer(question)]
    return [*labels(question), *years, *(Name("name", word, word) for word in proper(question))]


def proper(text: str) -> list[str]:
    """The words with a capital inside a sentence, those that stand together as one; none where most words have one."""
    found = [match.group() for match in _CAPITAL.finditer(text)]
    capital = sum(len(name.split()) for name in found)
    return found if capital <= MAX_CAPITAL_SHARE * len(_WORD.findall(text)) else []


class Known:
    """The names that passages know, with those of their documents and headings."""

    def __init__(self, passages: Sequence[Evidence]) -> None:
        texts = [f"{passage.document}\n{passage.heading}\n{passage.text}" for passage in passages]
        self._text = "\n".join(texts)
        self._labels = labels(self._text)
        self._said = frozenset().union(*map(said_terms, texts))

    def missing(self, question: str) -> list[Name]:
        """The names of the question that no passage has."""
        return [name for name in dict.fromkeys(names(question)) if not self._knows(name)]

    def others(self, name: Name) -> list[str]:
        """Names of the same kind: where there are, the passages count up the kind, and a missing one is not in it."""
        found = dict.fromkeys(label.shown for label in self._labels if _same_kind(label, name))
        return list(found)[:MAX_SIBLINGS]

    def _knows(self, name: Name) -> bool:
        if name.kind == "year":
            return name.value in self._text
        if name.kind == "name":
            return said_terms(name.value) <= self._said
        return any(_same(label, name) for label in self._labels)


def contradicts(text: str, asked: Sequence[Name]) -> bool:
    """Whether a text is about others of a kind that is asked for, and about none of those that are."""
    found = labels(text)
    for name in asked:
        of_kind = [label for label in found if _same_kind(label, name)]
        if of_kind and not any(_same(label, each) for label in of_kind for each in asked):
            return True
    return False


def bears_label(text: str, asked: Sequence[Name]) -> bool:
    """Whether a text has labels of a kind that is asked for, be they the same or others."""
    return any(_same_kind(label, name) for label in labels(text) for name in asked)


def _same_kind(one: Name, other: Name) -> bool:
    """A row that begins with a letter may be of any lettered kind: its header tells which, in words of its own."""
    if _ROW in (one.kind, other.kind):
        return all(name.kind == _ROW or name.kind.endswith(_LETTER) for name in (one, other))
    return one.kind == other.kind


def _same(one: Name, other: Name) -> bool:
    return _same_kind(one, other) and one.value == other.value


def _lettered(noun: str) -> str:
    return f"{noun.lower().removesuffix('s')}{_LETTER}"


def _rows_letters(text: str) -> Iterator[Name]:
    for line in text.splitlines():
        if is_row(line) and re.fullmatch("[A-Z]", first := cells(line)[0]):
            yield Name(_ROW, first, first)
