"""Where sentences end, in English, Korean and other languages that use the same stops."""

from __future__ import annotations

import re
from collections.abc import Iterator

# A stop, the quotes and brackets that close with it, and white space; the wide stops of Chinese and Japanese need none.
_BOUNDARY = re.compile(r"(?:[.!?…]+[\"'”’»)\]」』]*(?=\s)|[。！？][\"'”’»)\]」』]*)\s*|\n")
_LAST_WORD = re.compile(r"(\S+)\Z")

_ABBREVIATIONS_TEXT = """
mr mrs ms dr prof sr jr st mt gen col sgt capt lt rev hon gov sen rep pres vs cf al ca approx fig figs eq eqs ref refs
no nos vol vols art arts sec secs ch chap pp p ed eds trans inc ltd co corp dept univ est jan feb mar apr jun jul aug
sep sept oct nov dec e.g i.e a.m p.m u.s u.k u.n ph.d
"""
_ABBREVIATIONS = frozenset(_ABBREVIATIONS_TEXT.split())
# "1.", "a.", "iv.", "가.", "3.2.": the number of a paragraph or of a date, not the end of a sentence.
_LABEL_CHARACTERS = " .([\"'“‘0123456789"
_LABEL = re.compile(r"\(?(?:\d{1,4}|[A-Za-z]|[ivxIVX]{1,5}|[가나다라마바사아자차카타파하])(?:\.\d+)*\Z")


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence, without the white space around it; a line break ends a sentence too.

    Every character that is not white space lies in exactly one span.
    """
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        if _is_inside(text, start, boundary):
            continue
        span = _trimmed(text, start, boundary.end())
        if span is not None:
            yield span
        start = boundary.end()
    span = _trimmed(text, start, len(text))
    if span is not None:
        yield span


def _is_inside(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether the stop belongs to an abbreviation, a number or an initial, and the sentence from `start` goes on."""
    if not stop.group().startswith(".") or "\n" in stop.group():
        return False
    before = _LAST_WORD.search(text, max(stop.start() - 32, start), stop.start())
    word = before.group().lstrip("([\"'“‘") if before else ""
    after = text[stop.end() : stop.end() + 1]
    if word.lower() in _ABBREVIATIONS or after.islower():
        return True
    is_label = bool(_LABEL.match(word)) and not text[start : stop.start() - len(word)].strip(_LABEL_CHARACTERS)
    is_initial = len(word) == 1 and word.isupper()
    return is_label or is_initial or (word.isdigit() and after.isdigit())


def _trimmed(text: str, start: int, end: int) -> tuple[int, int] | None:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    right = len(piece.rstrip())
    return (start + left, start + right) if right > left else None
