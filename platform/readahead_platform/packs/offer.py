"""What a pack could do for a question."""

from __future__ import annotations

from dataclasses import dataclass

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
