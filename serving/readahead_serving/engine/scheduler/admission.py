"""Whether a waiting sequence may join the batch."""

from __future__ import annotations

from dataclasses import dataclass

from readahead_serving.engine.kv.cache import KVCache
from readahead_serving.engine.sequence import Sequence

WATERMARK = 0.02
"""Share of the pool that admission leaves free at least."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Admits a sequence when what it must compute of its prompt fits the KV cache with room to spare.

    The prompt's blocks are taken at once, so that a prefill never runs short half way (admitting on the first chunk
    alone ends in preemption loops, vLLM #37307). Completions are not reserved: a request may ask for thousands of
    tokens and write ten. Instead a watermark stays free, a block for every running sequence and the newcomer, so that
    each can cross into its next block; if KV runs short all the same, the youngest sequence is preempted. The watermark
    does not bind an idle engine, so that whatever fits the pool at all is served.
    """

    cache: KVCache
    max_running: int

    def admits(self, sequence: Sequence, num_running: int) -> bool:
        if num_running >= self.max_running:
            return False
        needed = self.cache.blocks_needed(sequence)
        return needed + self._watermark(num_running) <= self.cache.num_available

    def _watermark(self, num_running: int) -> int:
        if num_running == 0:
            return 0
        return max(num_running + 1, int(WATERMARK * self.cache.pool.num_blocks))
