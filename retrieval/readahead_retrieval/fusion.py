"""Makes one ranking of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_retrieval.index.dense import Hit

DENSE_WEIGHT = 0.6
"""Of 1; the words have the rest. The results move little between 0.5 and 0.7."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A passage that at least one engine found."""

    id: int
    score: float
    """0–1; relative to the best of its own list."""
    ranks: dict[str, int]
    """1-based, by the engines that found it."""
    similarity: float | None
    """Cosine; None where the question has no vector."""
    lexical_score: float
    """BM25; 0 for what the words did not find."""


def convex_combination(
    dense: Sequence[Hit], lexical: Sequence[Hit], others: Sequence[Hit] = (), weight: float = DENSE_WEIGHT
) -> list[Fused]:
    """Theoretical min-max convex combination (Bruch, Gai and Ingber, "An Analysis of Fusion Functions", 2023), sorted.

    Scores are scaled from the least that an engine can give (cosine −1, BM25 0) to the most that it gave, and averaged.
    Unlike ranks, such scores keep how sure an engine is: one that finds everything about equally near, as an English
    embedding model finds all Korean, hardly moves the order that the other gives. An engine without hits takes no part.

    Args:
        dense: Best first, none twice.
        lexical: Best first, none twice.
        others: The cosines of what only `lexical` found.
    """
    cosines = {hit.chunk_id: hit.score for hit in (*dense, *others)}
    bm25 = {hit.chunk_id: hit.score for hit in lexical}
    weight = 0.0 if not cosines else 1.0 if not bm25 else weight
    highest_cosine, highest_bm25 = max(cosines.values(), default=0.0), max(bm25.values(), default=1.0)
    ranks = _ranks(dense, lexical)

    def fused(found: int) -> Fused:
        near = (cosines.get(found, -1.0) + 1) / max(highest_cosine + 1, 1e-9)
        worded = bm25.get(found, 0.0) / highest_bm25
        score = min(max(weight * near + (1 - weight) * worded, 0.0), 1.0)
        return Fused(found, score, ranks[found], cosines.get(found), bm25.get(found, 0.0))

    # Ties by the best single place, then by id, so that the same search gives the same list.
    return sorted(map(fused, ranks), key=lambda f: (-f.score, min(f.ranks.values()), f.id))


def _ranks(dense: Sequence[Hit], lexical: Sequence[Hit]) -> dict[int, dict[str, int]]:
    ranks: dict[int, dict[str, int]] = {}
    for engine, hits in (("dense", dense), ("lexical", lexical)):
        for rank, hit in enumerate(hits, start=1):
            ranks.setdefault(hit.chunk_id, {})[engine] = rank
    return ranks
