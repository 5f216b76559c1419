"""The scheduler: which sequences wait, which run, and what each step computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.scheduler.admission import Admission
from readahead_serving.engine.scheduler.decode import decode_chunks, make_room
from readahead_serving.engine.scheduler.plan import Chunk, StepPlan
from readahead_serving.engine.scheduler.prefill import PrefillBudget
from readahead_serving.engine.sequence import Sequence


class Scheduler:
    """Continuous batching, first come first served.

    Sequences join and leave at every step. Decodes go first and always, prefill chunks fill a token budget beside them
    in the same step (Sarathi-Serve, arXiv:2403.02310), so that a long prompt never stops the running streams.
    """

    def __init__(self, pool: BlockPool, *, max_running: int, prefill_chunk_tokens: int) -> None:
        self._pool = pool
        self._admission = Admission(pool, max_running)
        self._chunk_tokens = prefill_chunk_tokens
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []  # in the order of arrival
        self.preemptions = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Sequence]:
        """All sequences there are, running or waiting."""
        yield from self._running
        yield from self._waiting

    def add(self, sequence: Sequence) -> None:
        self._waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Takes a sequence out, wherever it is, and frees its KV."""
        (self._waiting if sequence in self._waiting else self._running).remove(sequence)
        self._pool.release(sequence.blocks)

    def schedule(self) -> StepPlan:
        """Plans the next step; an empty plan means that there is no work."""
        preempted = make_room(self._running, self._pool)
        self.preemptions += len(preempted)
        self._waiting.extendleft(preempted)  # the youngest comes first, so the oldest ends up in front
        budget = PrefillBudget(self._chunk_tokens)
        decodes = decode_chunks(self._running)
        chunks = budget.chunks(self._running)
        if not preempted:
            chunks += self._admit(budget)
        return StepPlan(tuple(sorted(decodes + chunks, key=lambda chunk: chunk.count > 1)))

    def _admit(self, budget: PrefillBudget) -> list[Chunk]:
        chunks = []
        while budget.left and self._waiting and self._admission.admits(self._waiting[0], self.num_running):
            sequence = self._waiting.popleft()
            took = self._pool.extend(sequence.blocks, sequence.num_tokens)
            assert took, "admission counted the blocks"
            self._running.append(sequence)
            chunks.append(budget.chunk(sequence))
        return chunks

    def check_integrity(self) -> None:
        """Proves that no KV is lost. Raises `KVPoolError`."""
        self._pool.check_integrity(sequence.blocks for sequence in self)
