"""Words and sentences, for choosing quotations: no linguistics, every script."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")
_CLOSERS = r"[\"'”’)\]]*"
# a full stop inside a number, a version or a name ends no sentence
_SENTENCE = re.compile(rf"[^\n.!?。！？]*(?:[.!?](?!{_CLOSERS}(?:\s|$))[^\n.!?。！？]*)*[.!?。！？]*{_CLOSERS}")
_NUMBER = re.compile(r"[\d.]+\.")
_COMMON = frozenset(
    _WORD.findall(
        "a an and are as at be been but by can could did do does for from had has have how i if in into is it its may "
        "more most must my no not of on or our shall should so such than that the their them then there these they "
        "this those to was we were what when where which who whom whose why will with would you your"
    )
)


def words(text: str) -> frozenset[str]:
    """The words of a text in lower case, without those that every text has."""
    return frozenset(_WORD.findall(text.lower())) - _COMMON


def sentences(text: str) -> list[tuple[int, int]]:
    """The sentences of a text as offsets, without surrounding space; a number before a heading belongs to it."""
    spans: list[tuple[int, int]] = []
    numbered: int | None = None
    for match in _SENTENCE.finditer(text):
        part = match.group()
        stripped = part.strip()
        if not stripped:
            continue
        start = match.start() + part.index(stripped)
        if _NUMBER.fullmatch(stripped):
            numbered = start if numbered is None else numbered
            continue
        spans.append((start if numbered is None else numbered, start + len(stripped)))
        numbered = None
    return spans
