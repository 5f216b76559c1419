"""What a route is chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead_retrieval.types import Evidence

LOAD_BYTES_PER_S = 300e6
"""Of a pack on disk into memory: what a plain SSD gives at least."""


@dataclass(frozen=True, slots=True)
class PackOffer:
    """What a pack, of the whole knowledge base or of one document, could do for a question."""

    is_ready: bool
    """Whether questions on all documents as they are now can be asked at once."""
    tokens: int = 0
    delta_tokens: int = 0
    """Those of them that each question computes anew, because documents have changed and the new pack isn't built."""
    why_not: str = ""
    """One sentence for people, where it is not ready."""
    state: str = "none"
    """As /v1/packs has it: resident, on_disk, …"""
    build_s: float | None = None
    """Seconds that the model took to read it, where that was measured."""
    nbytes: int = 0
    """Bytes on disk."""

    @property
    def load_s(self) -> float | None:
        """Seconds until it can be read; None where that is not known."""
        return 0.0 if self.state != "on_disk" else self.nbytes / LOAD_BYTES_PER_S if self.nbytes else None


NO_PACK = PackOffer(is_ready=False, why_not="It has no pack; `readahead kb pack` builds one.")


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
