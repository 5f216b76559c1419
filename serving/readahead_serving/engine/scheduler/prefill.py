"""Chunks of sequences that lie more than one token behind."""

from __future__ import annotations

from collections.abc import Iterable

from readahead_serving.engine.scheduler.cost import StepCosts
from readahead_serving.engine.scheduler.plan import Chunk
from readahead_serving.engine.sequence import Sequence

MIN_CHUNK_TOKENS = 16
"""A step prefills this much at least, even where streams miss their target by it: a prompt must get on."""
MAX_PROMPT_ROWS = 128
"""Rows of logits that tell of prompts in one step: each is as long as the vocabulary, 0.6 MB for 150,000 tokens."""


class PrefillBudget:
    """Deals out what one step may compute beside the decodes: a number of tokens, and of seconds while streams run.

    Args:
        tokens: Tokens at most.
        seconds: Seconds that all chunks together may add to the step by `costs`; None without a limit.
        costs: Of a step's parts.
    """

    def __init__(self, tokens: int, seconds: float | None, costs: StepCosts) -> None:
        self._tokens = tokens
        self._seconds = seconds
        self._costs = costs
        self._floor = MIN_CHUNK_TOKENS
        self._prompt_rows = MAX_PROMPT_ROWS

    def chunk(self, sequence: Sequence) -> Chunk:
        """The sequence's next chunk; call only while the budget is not spent."""
        start = sequence.num_computed
        count = min(sequence.num_pending, self._tokens)
        if sequence.wants_prompt_told:
            count = min(count, max(1, self._prompt_rows))
            self._prompt_rows -= count
        if self._seconds is not None:
            within = self._costs.tokens_within(self._seconds, start, count)
            count = max(within, min(max(1, self._floor), count))
            self._seconds = max(0.0, self._seconds - self._costs.chunk_s(start, start + count))
        self._tokens -= count
        self._floor = max(0, self._floor - count)
        return Chunk.next(sequence, count)

    @property
    def is_spent(self) -> bool:
        """Whether no further chunk can come."""
        return self._tokens <= 0 or (self._seconds is not None and self._seconds <= 0 and self._floor == 0)

    def chunks(self, running: Iterable[Sequence]) -> list[Chunk]:
        """Chunks for the running sequences, in their order, as far as the budget goes."""
        behind = (sequence for sequence in running if sequence.num_pending > 1)
        return [self.chunk(sequence) for sequence in behind if not self.is_spent]
