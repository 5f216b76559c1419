"""The figures of a text: numbers as they are written, counts in words, and what they count."""

from __future__ import annotations

import re

from readahead_retrieval.relevance import said_terms

# markers of passages, and the numbers of a list, state nothing
NUMBERING = re.compile(r"\[\s*S\d[^\]]*\]|^\s*\d{1,3}[.)](?=\s)", re.MULTILINE)

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_DATE = re.compile(r"\d{1,4}[.]\d{1,2}[.]\d{1,4}")
_MEASURE = re.compile(r"\d[ \u00a0]?([^\W\d_]+)")
_COUNTS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_COUNTED = re.compile(rf"\b(?:{'|'.join(_COUNTS)})\b", re.IGNORECASE)


def numbers(text: str) -> set[str]:
    """The numbers of a text as written, and the parts of dates: a model may say 2028 where the page has 11.01.2028."""
    text = NUMBERING.sub("", text)
    parts = {part.lstrip("0") for date in _DATE.findall(text) for part in date.split(".")}
    return {match.group().replace(",", "") for match in _NUMBER.finditer(text)} | parts


def counts(text: str) -> set[str]:
    """The small numbers that are written as words, as digits."""
    return {str(_COUNTS.index(match.group().lower()) + 2) for match in _COUNTED.finditer(text)}


def measures(text: str) -> frozenset[str]:
    """What the figures count: the words right behind them."""
    return frozenset(term for word in _MEASURE.findall(text) for term in said_terms(word))
