"""How near a passage is to a query, as OpenAI's `score` tells it."""

from __future__ import annotations

from readahead_retrieval.types import Evidence


def score(passage: Evidence) -> float:
    """A similarity from 0 to 1; the order of results is the fused ranking's, which knows words too."""
    return min(max(passage.similarity, 0.0), 1.0)
