"""What a search takes, cleaned and bounded."""

from __future__ import annotations

import re
import unicodedata

from readahead_retrieval.errors import QueryError

MAX_QUERY_CHARS = 8_000
MAX_TOP_K = 50

_SPACE = re.compile(r"\s+")


def clean_query(query: str) -> str:
    """NFC, as pages are kept; without control characters and lone surrogates; white space as single spaces.

    Raises:
        QueryError: when nothing is left, or the query is too long.
    """
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError(f"The query has {len(query)} characters: use at most {MAX_QUERY_CHARS}.")
    kept = "".join(" " if unicodedata.category(c) in {"Cc", "Cs"} else c for c in query)
    cleaned = _SPACE.sub(" ", unicodedata.normalize("NFC", kept)).strip()
    if not cleaned:
        raise QueryError("The query is empty: ask something.")
    return cleaned


def check_top_k(top_k: int) -> int:
    if not 1 <= top_k <= MAX_TOP_K:
        raise QueryError(f"top_k is {top_k}: it must be 1 to {MAX_TOP_K}.")
    return top_k
