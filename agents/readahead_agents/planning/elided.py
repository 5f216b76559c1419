"""The sides of a comparison in full: "the limit in zone A with zone B" compares two limits."""

from __future__ import annotations

import re
from itertools import takewhile

_THAT = re.compile(r"(?:that|those|the ones?) (?=(?:of|in|for|at|from|on|with)\s)", re.IGNORECASE)
_WORD = re.compile(r"[^\s,;()]+")
_OWNED = re.compile(r"(?P<owner>[^,;()]+?)(?P<owned>(?:['’]s|(?<=s)['’])\s+[^,;()]+)$")
_OWNER = re.compile(r"(?:(?:an?|the|its|their|our|this|these|those)\s+)?(?:[^\s'’,;()]+\s*){1,4}$", re.IGNORECASE)
_OF = re.compile(r"\b(?:of|in|for|at|from|on|with|by|to)\b", re.IGNORECASE)
_ARTICLES = frozenset({"a", "an", "the", "its", "their", "our", "this", "these", "those"})
_VALUE = re.compile(r"\d[\d.,]*\s?(?P<unit>%|[^\W\d]+)?$")


def in_full(left: str, right: str) -> tuple[str, str]:
    """The sides, each with what it leaves out and the other says: as they are, where nothing seems to be left out."""
    said = _THAT.match(right)
    right = right[said.end() :] if said is not None else right
    return f"{left}{_behind_value(left, right) or _behind_owner(left, right)}", _begun(left, right)


def _begun(left: str, right: str) -> str:
    for cut in (_at_first_word(left, right), _at_value(left, right), _at_article(left, right)):
        if cut and not right.lower().startswith(left[:cut].lower()):
            return f"{left[:cut]}{right}"
    return right


def _at_first_word(left: str, right: str) -> int:
    """Where the left side has the word that the right one begins with: "zone B", "of up to 12 m"."""
    first = _WORD.match(right)
    if first is None or first.group().lower() in _ARTICLES or first.group()[0].isdigit():
        return 0
    begins = [word.start() for word in _WORD.finditer(left) if word.group().lower() == first.group().lower()]
    return max(begins, key=lambda begin: (_alike(left[begin:], right), begin), default=0)


def _alike(one: str, other: str) -> int:
    """Words that both begin with."""
    pairs = zip(_WORD.findall(one.lower()), _WORD.findall(other.lower()), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _at_value(left: str, right: str) -> int:
    """Where the left side has a value of the right one's unit: "12 m"."""
    value = _VALUE.match(right)
    if value is None:
        return 0
    unit = re.escape(value.group("unit") or "")
    places = [match.start() for match in re.finditer(rf"(?<![\w.,])\d[\d.,]*\s?{unit}(?!\w)", left)]
    return places[-1] if places else 0


def _behind_value(left: str, right: str) -> str:
    """What stands behind the right side's value and holds for the left one too: "10 m and 12 m in summer"."""
    last = re.search(r"\d[\d.,]*\s?(?P<unit>%|[^\W\d]+)$", left)
    if last is None:
        return ""
    value = re.search(rf"(?<![\w.,])\d[\d.,]*\s?{re.escape(last.group('unit'))}(?!\w)", right)
    return right[value.end() :] if value is not None else ""


def _behind_owner(left: str, right: str) -> str:
    """What the right side's owner has, where the left one is one too: "Ada Lark and Grace Hopper's birth dates"."""
    owned = _OWNED.match(right)
    if owned is not None and left.endswith(("'s", "’s", "s'", "s’")):
        return owned.group("owned").lstrip("s'’")
    if owned is None or _OWNER.match(left) is None or _OF.search(left):
        return ""
    first, other = left.split()[0], owned.group("owner").split()[0]
    is_like = (first[0].isupper() and other[0].isupper()) or {first.lower(), other.lower()} <= _ARTICLES
    return owned.group("owned") if is_like else ""


def _at_article(left: str, right: str) -> int:
    """Where the left side's last noun begins, if both end with the same one: "the price of the small boat" and "the
    large boat"."""
    mine, other = _WORD.findall(left.lower()), _WORD.findall(right.lower())
    if not mine or not other or mine[-1] != other[-1] or other[0] not in _ARTICLES:
        return 0
    places = [word.start() for word in _WORD.finditer(left) if word.group().lower() in _ARTICLES]
    return places[-1] if places else 0
