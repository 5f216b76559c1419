"""The scheduler: which sequences wait, which run, and what each step computes."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator

from readahead_serving.engine.kv.cache import BlockCopy, KVCache
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.scheduler.admission import Admission
from readahead_serving.engine.scheduler.cost import CostModel, StepCosts, StepLoad
from readahead_serving.engine.scheduler.decode import decode_chunks, make_room, preempt
from readahead_serving.engine.scheduler.plan import Chunk, StepPlan
from readahead_serving.engine.scheduler.prefill import MIN_CHUNK_TOKENS, PrefillBudget
from readahead_serving.engine.scheduler.queue import WaitingQueue
from readahead_serving.engine.sequence import Sequence

LEAST_PREFILL = 0.25
"""Time for prefill, as a share of the decodes' own, where these alone all but miss the target: prompts must get on."""
AGING = 64
"""Requests that may come later and still go first for one level of priority: nothing starves."""


class Scheduler:
    """Continuous batching: by priority, then first come first served, fair between tenants.

    Sequences join and leave at every step. Decodes go first and always, prefill chunks fill a budget beside them in
    the same step (Sarathi-Serve, arXiv:2403.02310), so that a long prompt never stops the running streams. While
    streams run, the budget is the time that they leave of `tbt_target_s` by measured costs; else a number of tokens.

    Args:
        cache: The KV to hand out; a bare pool is one that keeps nothing for reuse.
        max_running: Sequences in the running batch at most.
        prefill_chunk_tokens: Prompt tokens of one step at most.
        tbt_target_s: Seconds that a step with running streams should take at most; None for no target.
        tenant_share: Share of the running batch that one tenant may have at most.
    """

    def __init__(
        self,
        cache: KVCache | BlockPool,
        *,
        max_running: int,
        prefill_chunk_tokens: int,
        tbt_target_s: float | None = None,
        tenant_share: float = 1.0,
    ) -> None:
        self.cache = KVCache(cache) if isinstance(cache, BlockPool) else cache
        self._admission = Admission(self.cache, max_running)
        self._chunk_tokens = prefill_chunk_tokens
        self._tbt_target_s = tbt_target_s
        self._cost_model = CostModel()
        self._waiting = WaitingQueue(max(1, int(tenant_share * max_running)))
        self._running: list[Sequence] = []  # by rank
        self._arrivals = 0
        self.preemptions = 0
        self.integrity_checks = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def costs(self) -> StepCosts:
        return self._cost_model.costs

    def __iter__(self) -> Iterator[Sequence]:
        """All sequences there are, running or waiting."""
        yield from self._running
        yield from self._waiting

    def add(self, sequence: Sequence) -> None:
        self._arrivals += 1
        sequence.rank = self._arrivals + AGING * sequence.request.priority
        sequence.num_expected = self.cache.reusable_tokens(sequence)
        self._waiting.add(sequence)

    def remove(self, sequence: Sequence, *, keep: bool = True) -> None:
        """Takes a sequence out, wherever it is. Its KV stays for reuse as far as there is room, if it is to be kept."""
        if sequence in self._running:
            self._running.remove(sequence)
        else:
            self._waiting.remove(sequence)
        self.cache.release(sequence, keep=keep)

    def schedule(self) -> StepPlan:
        """Plans the next step; an empty plan means that there is no work."""
        preempted = make_room(self._running, self.cache)
        for sequence in preempted:
            self._put_back(sequence)
        if not preempted:
            self._make_way()
        decodes = decode_chunks(self._running)
        budget = PrefillBudget(self._chunk_tokens, self._spare_s(StepPlan(tuple(decodes)).load), self.costs)
        copies: list[BlockCopy] = []
        chunks = budget.chunks(self._running)
        if not preempted:
            chunks += self._admit(budget, copies)
        plan = StepPlan(tuple(sorted(decodes + chunks, key=lambda chunk: chunk.count > 1)), tuple(copies))
        for chunk in plan.chunks:
            self._waiting.charge(chunk.sequence.request.salt, chunk.count)
        return plan

    def _put_back(self, sequence: Sequence) -> None:
        self.preemptions += 1
        if sequence.is_build:
            self._waiting.add(sequence)
        else:
            self._waiting.add_preempted(sequence)

    def _make_way(self) -> None:
        """Puts builds back whose KV the next request to be admitted needs."""
        head = self._waiting.head(Counter(sequence.request.salt for sequence in self._running))
        builds = [sequence for sequence in self._running if sequence.is_build]
        while builds and head is not None and not head.is_build and not self._admission.admits(head, self.num_running):
            sequence = builds.pop()
            self._running.remove(sequence)
            self._put_back(preempt(sequence, self.cache))

    def _admit(self, budget: PrefillBudget, copies: list[BlockCopy]) -> list[Chunk]:
        chunks = []
        running = Counter(sequence.request.salt for sequence in self._running)
        while not budget.is_spent and (sequence := self._waiting.head(running)) is not None:
            if not self._admission.admits(sequence, self.num_running):
                break
            self._waiting.remove(sequence)
            copies += self.cache.start(sequence)
            insort(self._running, sequence, key=lambda one: one.rank)
            running[sequence.request.salt] += 1
            chunks.append(budget.chunk(sequence))
        return chunks

    def observe(self, load: StepLoad, seconds: float) -> None:
        """Takes in how long a step took."""
        self._cost_model.observe(load, seconds)

    def backlog_s(self) -> float:
        """Predicted seconds until all prompts that are here are computed, expected cache hits taken off.

        Packs that are being built don't count: they make way for requests.
        """
        costs, decodes = self.costs, StepPlan(tuple(decode_chunks(self._running))).load
        behind = [(max(one.num_computed, one.num_expected), one.num_tokens) for one in self._prompts()]
        work = sum(costs.chunk_s(start, end) for start, end in behind)
        spare = self._spare_s(decodes)
        if spare is None:
            steps = -(-sum(end - start for start, end in behind) // self._chunk_tokens)
            return work + steps * costs.step_s
        least = costs.chunk_s(0, MIN_CHUNK_TOKENS)
        return work * (1 + costs.seconds(decodes) / max(spare, least, 1e-6))

    def _prompts(self) -> Iterator[Sequence]:
        return (sequence for sequence in self if sequence.num_pending > 1 and not sequence.is_build)

    def _spare_s(self, decodes: StepLoad) -> float | None:
        """Seconds that prefill may add to a step with these decodes; None without a limit."""
        if self._tbt_target_s is None or decodes.decode_rows == 0:
            return None
        decode_s = self.costs.seconds(decodes)
        return max(self._tbt_target_s - decode_s, LEAST_PREFILL * decode_s)

    def check_integrity(self) -> None:
        """Proves that no KV is lost. Raises `KVPoolError`."""
        self.cache.check_integrity(self)
        self.integrity_checks += 1
