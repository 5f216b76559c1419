"""Chunks of sequences that lie more than one token behind."""

from __future__ import annotations

from readahead_serving.engine.scheduler.plan import Chunk
from readahead_serving.engine.sequence import Sequence


class PrefillBudget:
    """Deals out the tokens that one step may compute beside the decodes."""

    def __init__(self, tokens: int) -> None:
        self.left = tokens

    def chunk(self, sequence: Sequence) -> Chunk:
        """The sequence's next chunk; call only with budget left."""
        count = min(sequence.num_pending, self.left)
        self.left -= count
        return Chunk.next(sequence, count)

    def chunks(self, running: list[Sequence]) -> list[Chunk]:
        """Chunks for the running sequences, oldest first, as far as the budget goes."""
        behind = (sequence for sequence in running if sequence.num_pending > 1)
        return [self.chunk(sequence) for sequence in behind if self.left]
