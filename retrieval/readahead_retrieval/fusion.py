"""Makes one ranking of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RRF_K = 60


@dataclass(frozen=True, slots=True)
class Fused:
    id: int
    score: float
    ranks: dict[str, int]
    """1-based, by the engines that found it."""


def reciprocal_rank_fusion(rankings: Mapping[str, Sequence[int]], k: int = RRF_K) -> list[Fused]:
    """Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).

    Scores are the mean of (k + 1) / (k + rank) over the engines that found anything: 1 is the first place everywhere.
    An engine without hits takes no part, rather than pulling every score down.

    Args:
        rankings: Ids by engine, best first, none twice.
    """
    taking_part = {engine: ids for engine, ids in rankings.items() if ids}
    ranks: dict[int, dict[str, int]] = {}
    for engine, ids in taking_part.items():
        for rank, found in enumerate(ids, start=1):
            ranks.setdefault(found, {})[engine] = rank
    fused = [
        # fsum: the order of the engines must not show in the last digit, and so in the ranking
        Fused(found, math.fsum((k + 1) / (k + rank) for rank in of.values()) / len(taking_part), of)
        for found, of in ranks.items()
    ]
    # Ties by the best single place, then by id, so that the same search gives the same list.
    return sorted(fused, key=lambda f: (-f.score, min(f.ranks.values()), f.id))
