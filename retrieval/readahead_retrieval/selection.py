"""Which of the ranked passages are shown: none twice, none that was removed, not too many of one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from readahead_retrieval.apparatus import demotion
from readahead_retrieval.fusion import Fused
from readahead_retrieval.index.analysis import terms
from readahead_retrieval.store.chunks import StoredChunk

NEAR_DUPLICATE = 0.9
"""Share of terms in common above which two passages are one: the same page in two versions of a document."""

Dropped = Literal["near_duplicate", "document_cap", "beyond_top_k"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A ranked passage, and why it is not shown."""

    fused: Fused
    chunk: StoredChunk
    dropped: Dropped | None


def weighed(ranked: Sequence[Fused], live: Mapping[int, StoredChunk]) -> list[Fused]:
    """Those that are live, what only points elsewhere behind what says something."""
    found = [(f, live[f.id]) for f in ranked if f.id in live]
    demoted = [replace(f, score=f.score * demotion(chunk.heading, chunk.text)) for f, chunk in found]
    return sorted(demoted, key=lambda f: -f.score)


def select(
    ranked: Sequence[Fused], live: Mapping[int, StoredChunk], wanted: int, per_document: int | None = None
) -> list[Judged]:
    """All that are live, in order; at most `wanted` of them, and `per_document` of each document, are to be shown."""
    judged: list[Judged] = []
    shown: list[frozenset[str]] = []
    of_document: Counter[str] = Counter()
    for fused in ranked:
        if fused.id not in live:
            continue
        chunk = live[fused.id]
        dropped = _verdict(len(shown) >= wanted, of_document[chunk.document_id], per_document)
        words = frozenset(terms(chunk.text)) if dropped is None else frozenset()
        if dropped is None and any(_overlap(words, other) >= NEAR_DUPLICATE for other in shown):
            dropped = "near_duplicate"
        if dropped is None:
            shown.append(words)
            of_document[chunk.document_id] += 1
        judged.append(Judged(fused, chunk, dropped))
    return judged


def _verdict(enough: bool, of_document: int, per_document: int | None) -> Dropped | None:
    if enough:
        return "beyond_top_k"
    return "document_cap" if per_document is not None and of_document >= per_document else None


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard's coefficient."""
    union = len(one | other)
    return len(one & other) / union if union else 1.0
