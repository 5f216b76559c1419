"""What a sentence says, one thing after another: of "one was accused, and none was convicted", both."""

from __future__ import annotations

import re

from readahead_retrieval.relevance import said_terms

MIN_TERMS = 2
"""Of a piece that says something by itself; what has fewer is a member of what follows: "dogs, cats and horses"."""

_CUT = re.compile(r"[.!?,;:–—]\s+|\s(?:and|but|while|whereas|though|although|yet)\s", re.IGNORECASE)


def assertions(text: str) -> list[str]:
    """The clauses of a text, in their order, without what joins them."""
    found: list[str] = []
    before = ""
    for piece in _CUT.split(text):
        whole = f"{before} {piece}".strip()
        before = "" if len(said_terms(whole)) >= MIN_TERMS else whole
        if not before:
            found.append(whole)
    if before:
        found.append(f"{found.pop()} {before}" if found else before)
    return found
