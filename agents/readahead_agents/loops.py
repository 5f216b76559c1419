"""Notices a model that goes round in circles: it would do so until its limit."""

from __future__ import annotations

import re

MIN_LOOP_CHARS = 32
"""What a repeated run must take together, so that "10000" and "no, no, no" are none."""
MAX_UNIT_CHARS = 120
LOOKED_BACK = 4 * MAX_UNIT_CHARS
_LOOP = re.compile(rf"(?P<unit>\S.{{0,{MAX_UNIT_CHARS - 1}}}?)(?P=unit){{3,}}\Z", re.DOTALL)


def loops(text: str) -> bool:
    """Whether the text ends with the same words, or parts of words, four times on end."""
    found = _LOOP.search(text[-LOOKED_BACK:])
    if found is None or len(found.group()) < MIN_LOOP_CHARS:
        return False
    return any(map(str.isalnum, found.group("unit")))  # rules of tables are no loops
