"""The second side of a comparison in full: "the limit in zone A with zone B" compares two limits."""

from __future__ import annotations

import re

_THAT = re.compile(r"(?:that|those|the ones?) (?=(?:of|in|for|at|from|on|with)\s)", re.IGNORECASE)
_WORD = re.compile(r"[^\s,;()]+")
_ARTICLES = frozenset({"a", "an", "the", "its", "their", "our", "this", "these", "those"})
_VALUE = re.compile(r"\d[\d.,]*\s?(?P<unit>%|[^\W\d]+)?$")


def in_full(left: str, right: str) -> str:
    """The right side with what it leaves out and the left one says: as it is, where nothing seems to be left out."""
    said = _THAT.match(right)
    right = right[said.end() :] if said is not None else right
    for cut in (_at_first_word(left, right), _at_value(left, right), _at_article(left, right)):
        if cut:
            return f"{left[:cut]}{right}"
    return right


def _at_first_word(left: str, right: str) -> int:
    """Where the left side has the word that the right one begins with: "zone B", "of up to 12 m"."""
    first = _WORD.match(right)
    if first is None or first.group().lower() in _ARTICLES or first.group()[0].isdigit():
        return 0
    places = [word.start() for word in _WORD.finditer(left) if word.group().lower() == first.group().lower()]
    return places[-1] if places else 0


def _at_value(left: str, right: str) -> int:
    """Where the left side has a value of the right one's unit: "12 m"."""
    value = _VALUE.match(right)
    if value is None:
        return 0
    unit = re.escape(value.group("unit") or "")
    places = [match.start() for match in re.finditer(rf"(?<![\w.,])\d[\d.,]*\s?{unit}(?!\w)", left)]
    return places[-1] if places else 0


def _at_article(left: str, right: str) -> int:
    """Where the left side's last noun begins, if both end with the same one: "the price of the small boat" and "the
    large boat"."""
    mine, other = _WORD.findall(left.lower()), _WORD.findall(right.lower())
    if not mine or not other or mine[-1] != other[-1] or other[0] not in _ARTICLES:
        return 0
    places = [word.start() for word in _WORD.finditer(left) if word.group().lower() in _ARTICLES]
    return places[-1] if places else 0
