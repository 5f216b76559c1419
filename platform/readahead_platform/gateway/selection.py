"""Which passages of a knowledge base an answer may stand on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_platform.gateway.scores import score
from readahead_retrieval.types import Evidence


@dataclass(frozen=True, slots=True)
class Selection:
    """All of them, unless something is set."""

    document_ids: tuple[str, ...] | None = None
    """The documents that are searched; None means all."""
    min_score: float | None = None
    """Of a passage, 0 to 1."""

    def kept(self, found: Sequence[Evidence]) -> list[Evidence]:
        """Those of the passages that score enough."""
        return [passage for passage in found if self.min_score is None or score(passage) >= self.min_score]


EVERYTHING = Selection()
