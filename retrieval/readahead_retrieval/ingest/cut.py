"""How documents are cut into chunks, and how that is told later from another way of cutting."""

from __future__ import annotations

import hashlib

from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.tokens import TokenCounter

SPECIAL_TOKENS = 2
"""That an embedding model puts around a text."""

_PROBES = (
    "Travellers are reimbursed for hotels of up to 140 euros a night, breakfast included (see section 12.4).",
    "antidisestablishmentarianism, electroencephalographically",
    "Donaudampfschifffahrtsgesellschaft, Überprüfungsausschuß",
    "L'été dernier, où qu'il fût, il n'en gardait aucun souvenir.",
    "연차휴가는 다음 해 3월 말까지 사용하여야 하며, 그 이후에는 소멸한다.",
    "有給休暇は翌年の3月末までに取得しなければならない。",
    "年假必须在次年三月底之前使用。",
    "Отпуск должен быть использован до конца марта.",
    "def area(r): return 3.14159265 * r ** 2  # https://example.org/a?b=c_d",
    "0123456789 2026-12-01T05:41:09Z 1,048,576 €",
)
"""Texts that vocabularies divide in different ways."""


class Cut:
    """The size of chunks by a model's tokens.

    Args:
        window: Tokens that the embedding model takes, its own special ones counted.
    """

    def __init__(self, settings: RetrievalSettings, counter: TokenCounter, window: int) -> None:
        self._chunk_tokens = settings.chunk_tokens
        self._overlap_tokens = settings.chunk_overlap_tokens
        self._most = window - SPECIAL_TOKENS
        # By what the counter does: another release of the tokenizer's library may write down the same vocabulary
        # otherwise, and every document would be cut anew for nothing.
        counts = ",".join(str(counter.count(probe)) for probe in _PROBES)
        self._counter = hashlib.sha256(counts.encode()).hexdigest()[:16]

    def sizes(self, asked: int | None, asked_overlap: int | None) -> tuple[int, int]:
        """The most tokens of a chunk, and of what it repeats; what was not asked for with the file is the settings'."""
        most = min(self._chunk_tokens if asked is None else asked, self._most)
        overlap = self._overlap_tokens if asked_overlap is None else asked_overlap
        return most, min(overlap, most // 2)

    def mark(self, asked: int | None, asked_overlap: int | None) -> str:
        """Equal where the same text would become the same chunks."""
        most, overlap = self.sizes(asked, asked_overlap)
        return f"{self._counter} {most} {overlap}"
