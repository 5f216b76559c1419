"""What a route is chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_platform.packs.offer import NO_PACK, PackOffer
from readahead_retrieval.types import Evidence


@dataclass(frozen=True, slots=True)
class Room:
    """What the model may read for one answer, in tokens; the window is None where nobody could tell it."""

    window: int | None = None
    answer: int = 0
    search: int = 0
    """That the passages of a search may take."""
    read_s: float | None = None
    """Seconds that the LLM server takes to read a token, where it has measured any."""


@dataclass(frozen=True, slots=True)
class Concentration:
    """The document that most of what a search found is from."""

    document_id: str
    document: str
    share: float
    """Of the score of all passages found, 0 to 1."""


@dataclass(frozen=True, slots=True)
class KbFacts:
    """What there is of a knowledge base beside its pack."""

    tokens: int | None = None
    """Of all searchable documents, by the model's tokenizer; estimated from a sample where no pack tells it."""
    pending: int = 0
    """Documents on their way to being searchable, which no route knows yet."""
    changed: int = 0
    """Documents added or removed since the pack that there is."""
    evidence: Concentration | None = None
    """None where no search was made for the choice."""
    document_pack: PackOffer = NO_PACK
    """Of the document that the evidence lies in."""


def concentration(found: Sequence[Evidence]) -> Concentration | None:
    """Which document the best passages are from, by their scores; None where none was found."""
    scores: dict[str, float] = {}
    for passage in found:
        scores[passage.document_id] = scores.get(passage.document_id, 0.0) + max(passage.score, 0.0)
    total = sum(scores.values())
    if not total:
        return None
    best = max(scores, key=lambda document_id: scores[document_id])
    name = next(passage.document for passage in found if passage.document_id == best)
    return Concentration(best, name, scores[best] / total)
