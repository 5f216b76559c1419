"""One ranking of a generation's passages for a question: both engines, fused. Blocks, and knows no database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.fusion import DENSE_WEIGHT, Fused, fuse
from readahead_retrieval.index.dense import Hit
from readahead_retrieval.index.generation import Generation


@dataclass(frozen=True, slots=True)
class Within:
    """The documents asked for, and their chunks."""

    documents: tuple[str, ...]
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one look into both engines found, best first."""

    fused: list[Fused]
    exhausted: bool
    """Neither engine has more."""


def rank(
    generation: Generation,
    query: str,
    vector: Vectors | None,
    limit: int,
    within: Within | None = None,
    *,
    by_words: bool = False,
) -> Ranking:
    """Up to `limit` passages from each engine.

    Args:
        vector: The question's, of shape (dimension,); None to go by words alone.
        limit: At least 1.
        by_words: Whether the vectors have no say in the order of what the words found, as the model does not know the
            question's script.
    """
    dense: list[Hit] = []
    if vector is not None:
        dense = generation.dense.search(vector, limit, within.chunks if within else None)
    lexical = generation.lexical.search(query, limit, within.documents if within else None)
    others = _cosines(generation, vector, dense, lexical) if vector is not None else []
    return Ranking(
        fuse(dense, lexical, others, 0.0 if by_words else DENSE_WEIGHT), max(len(dense), len(lexical)) < limit
    )


def _cosines(generation: Generation, vector: Vectors, dense: Sequence[Hit], lexical: Sequence[Hit]) -> list[Hit]:
    found = {hit.chunk_id for hit in dense}
    others = [hit.chunk_id for hit in lexical if hit.chunk_id not in found]
    return [Hit(i, s) for i, s in zip(others, generation.dense.similarities(vector, others), strict=True)]
