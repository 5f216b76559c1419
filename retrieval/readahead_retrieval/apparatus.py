"""Tells lists of references from text: they name the subject in every line, and state nothing about it."""

from __future__ import annotations

import re

_MARKS = re.compile(
    r"""https?:|www\.|\bdoi\b|\bISBN\b|\bISSN\b|\bet\ al\b|\bpp?\.|\bvol\.|\beds?\.|\barchived\b|\bretrieved\b
    |\baccessed\b|\(pdf\)|\^|["“][^"”]{8,120}["”]
    |\((?:\d{1,2}\ )?(?:[^\W\d]+\ )?(?:\d{1,2},\ )?(?:19|20)\d\d[a-z]?\)""",
    re.IGNORECASE | re.VERBOSE,
)
"""What references are made of: addresses, numbers of publications, quoted titles, dates in brackets."""

MARKS_SHARE = 0.05
"""One mark in twenty words; running text that cites now and then has fewer than half as many."""
DEMOTION = 0.7


def demotion(text: str) -> float:
    """What a passage's score is multiplied by: it stays findable for who asks for a source, behind what answers."""
    return DEMOTION if is_reference_list(text) else 1.0


def is_reference_list(text: str) -> bool:
    words = len(text.split())
    return words > 0 and len(_MARKS.findall(text)) / words > MARKS_SHARE
