"""Makes one ranking of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from readahead_retrieval.index.dense import Hit

DENSE_WEIGHT = 0.55
"""Of 1; the words have the rest. The results move little between 0.5 and 0.6."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A passage that at least one engine found."""

    id: int
    score: float
    """0–1; relative to its own list, whose average passage has about a half."""
    ranks: dict[str, int]
    """1-based, by the engines that found it."""
    similarity: float | None
    """Cosine; None where the question has no vector."""
    lexical_score: float
    """BM25; 0 for what the words did not find."""


def fuse(
    dense: Sequence[Hit], lexical: Sequence[Hit], others: Sequence[Hit] = (), weight: float = DENSE_WEIGHT
) -> list[Fused]:
    """Adds scores of zero mean and unit variance (ZMUV: Montague and Aslam, "Relevance Score Normalization for
    Metasearch", CIKM 2001) and puts the sum on a logistic scale, sorted.

    Scores say how far a passage stands out from the others that were found, which ranks do not: where an English
    embedding model finds all Korean about equally near, no passage stands out, and the words decide. An engine without
    hits takes no part.

    Args:
        dense: Best first, none twice.
        lexical: Best first, none twice.
        others: The cosines of what only `lexical` found.
    """
    cosines = {hit.chunk_id: hit.score for hit in (*dense, *others)}
    bm25 = {hit.chunk_id: hit.score for hit in lexical}
    ranks = _ranks(dense, lexical)
    weight = 0.0 if not cosines else 1.0 if not bm25 else weight
    lowest = min(cosines.values(), default=0.0)
    near = _standardised([cosines.get(i, lowest) for i in ranks])
    worded = _standardised([bm25.get(i, 0.0) for i in ranks])
    scores = 1 / (1 + np.exp(-(weight * near + (1 - weight) * worded)))
    fused = [
        Fused(i, float(score), ranks[i], cosines.get(i), bm25.get(i, 0.0))
        for i, score in zip(ranks, scores, strict=True)
    ]
    # Ties by the best single place, then by id, so that the same search gives the same list.
    return sorted(fused, key=lambda f: (-f.score, min(f.ranks.values()), f.id))


def _standardised(scores: Sequence[float]) -> npt.NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if not len(values):
        return values
    # Nearly equal scores are not blown up to differences: rounding would rank.
    spread = max(float(values.std()), 1e-6)
    standardised: npt.NDArray[np.float64] = (values - values.mean()) / spread
    return standardised


def _ranks(dense: Sequence[Hit], lexical: Sequence[Hit]) -> dict[int, dict[str, int]]:
    ranks: dict[int, dict[str, int]] = {}
    for engine, hits in (("dense", dense), ("lexical", lexical)):
        for rank, hit in enumerate(hits, start=1):
            ranks.setdefault(hit.chunk_id, {})[engine] = rank
    return ranks
