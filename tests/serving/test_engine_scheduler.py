"""The scheduler alone: no model, no clock."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from readahead_serving.engine.kv.pool import BlockPool, KVPoolError
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.engine.sequence import Sequence

BLOCK = 4


def make(blocks: int = 100, *, max_running: int = 8, chunk: int = 16) -> tuple[Scheduler, BlockPool]:
    pool = BlockPool(blocks, BLOCK)
    return Scheduler(pool, max_running=max_running, prefill_chunk_tokens=chunk), pool


def sequence(name: str, prompt: int, max_tokens: int = 1000) -> Sequence:
    sampling = SamplingParams(max_tokens=max_tokens)
    return Sequence(GenerationRequest(request_id=name, prompt_tokens=[1] * prompt, sampling=sampling))


def run(plan: StepPlan) -> list[tuple[str, int]]:
    """Does what a step does, and tells who computed how many tokens."""
    for chunk in plan.chunks:
        chunk.sequence.num_computed = chunk.end
        if chunk.sequence.num_pending == 0:
            chunk.sequence.token_ids.append(7)
    return [(chunk.sequence.request_id, chunk.count) for chunk in plan.chunks]


def test_a_running_stream_gets_a_token_in_every_step_of_anothers_prefill() -> None:
    scheduler, _ = make()
    scheduler.add(sequence("stream", 2))
    assert run(scheduler.schedule()) == [("stream", 2)]
    scheduler.add(sequence("long", 40))
    steps = [run(scheduler.schedule()) for _ in range(4)]
    assert steps == [
        [("stream", 1), ("long", 16)],
        [("stream", 1), ("long", 16)],
        [("stream", 1), ("long", 8)],
        [("stream", 1), ("long", 1)],
    ]


def test_what_a_prefill_leaves_of_the_budget_goes_to_the_next_in_the_same_step() -> None:
    scheduler, _ = make(chunk=16)
    for name in ("a", "b", "c"):
        scheduler.add(sequence(name, 10))
    assert run(scheduler.schedule()) == [("a", 10), ("b", 6)]
    assert run(scheduler.schedule()) == [("a", 1), ("b", 4), ("c", 10)]


def test_no_more_than_max_running_run_and_the_next_joins_when_one_leaves() -> None:
    scheduler, _ = make(max_running=2)
    sequences = [sequence(name, 2) for name in "abc"]
    for one in sequences:
        scheduler.add(one)
    run(scheduler.schedule())
    assert (scheduler.num_running, scheduler.num_waiting) == (2, 1)
    scheduler.remove(sequences[0])
    assert run(scheduler.schedule()) == [("b", 1), ("c", 2)]


def test_a_prompt_is_admitted_only_when_all_of_it_fits_beside_a_reserve() -> None:
    scheduler, pool = make(blocks=10)
    scheduler.add(sequence("a", 5 * BLOCK))
    scheduler.add(sequence("b", 4 * BLOCK))
    run(scheduler.schedule())
    run(scheduler.schedule())
    assert scheduler.num_waiting == 1, "b would leave no room for a to go on"
    assert pool.num_free == 5


def test_an_idle_engine_admits_whatever_fits_the_pool() -> None:
    scheduler, pool = make(blocks=10, chunk=100)
    scheduler.add(sequence("a", 10 * BLOCK))
    assert run(scheduler.schedule()) == [("a", 10 * BLOCK)]
    assert pool.num_free == 0


def test_when_kv_runs_short_the_youngest_starts_over_and_the_oldest_goes_on() -> None:
    scheduler, pool = make(blocks=6, chunk=100)
    old, young = sequence("old", 2 * BLOCK - 1), sequence("young", BLOCK - 1)
    scheduler.add(old)
    run(scheduler.schedule())
    scheduler.add(young)
    run(scheduler.schedule())
    assert scheduler.num_running == 2
    while scheduler.preemptions == 0:
        run(scheduler.schedule())
    assert (young.num_computed, young.blocks, young.preemptions) == (0, [], 1)
    assert scheduler.num_running == 1
    written = young.num_tokens
    scheduler.remove(old)
    assert run(scheduler.schedule()) == [("young", written)]
    pool.check_integrity([young.blocks])


def test_the_order_of_arrival_survives_preemption() -> None:
    scheduler, _ = make(blocks=8, chunk=100)
    sequences = [sequence(name, BLOCK - 1) for name in "abc"]
    scheduler.add(sequences[0])
    run(scheduler.schedule())
    scheduler.add(sequences[1])
    run(scheduler.schedule())
    scheduler.add(sequences[2])
    while scheduler.preemptions < 2:
        run(scheduler.schedule())
    assert [one.request_id for one in scheduler] == ["a", "b", "c"]


def test_a_lost_or_doubled_block_is_noticed() -> None:
    pool = BlockPool(4, BLOCK)
    blocks: list[int] = []
    assert pool.extend(blocks, 2 * BLOCK)
    pool.check_integrity([blocks])
    with pytest.raises(KVPoolError):
        pool.check_integrity([])
    with pytest.raises(KVPoolError):
        pool.check_integrity([blocks, blocks])


def test_a_pool_gives_nothing_when_it_cannot_give_all() -> None:
    pool = BlockPool(4, BLOCK)
    blocks: list[int] = []
    assert not pool.extend(blocks, 5 * BLOCK)
    assert (blocks, pool.num_free) == ([], 4)


class AnyOrderOfEvents(RuleBasedStateMachine):
    """Requests come, end and step in any order; the invariants hold after each."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler, self.pool = make(blocks=12, max_running=4, chunk=10)
        self.count = 0
        self.alive: list[Sequence] = []

    @rule(prompt=st.integers(1, 40), max_tokens=st.integers(1, 8))
    def add(self, prompt: int, max_tokens: int) -> None:
        self.count += 1
        self.alive.append(sequence(str(self.count), prompt, max_tokens))
        self.scheduler.add(self.alive[-1])

    @precondition(lambda self: bool(self.alive))
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        self.end(data.draw(st.sampled_from(self.alive)))

    @rule(forced=st.integers(0, 5))
    def step(self, forced: int) -> None:
        plan = self.scheduler.schedule()
        assert bool(plan.chunks) == bool(self.alive), "work without a step"
        names = [chunk.sequence.request_id for chunk in plan.chunks]
        assert len(set(names)) == len(names)
        assert sum(chunk.count for chunk in plan.chunks if chunk.count > 1) <= 10
        assert [chunk.count > 1 for chunk in plan.chunks] == sorted(chunk.count > 1 for chunk in plan.chunks)
        for chunk in plan.chunks:
            one = chunk.sequence
            assert chunk.start == one.num_computed
            assert len(one.blocks) * BLOCK >= chunk.end, "computed without room"
            one.num_computed = chunk.end
            if one.num_pending == 0:
                one.token_ids.extend([7] * min(1 + forced, one.num_wanted))
                if one.num_wanted == 0:
                    self.end(one)

    def end(self, one: Sequence) -> None:
        self.alive.remove(one)
        self.scheduler.remove(one)

    @invariant()
    def no_block_is_lost(self) -> None:
        self.scheduler.check_integrity()
        assert {one.request_id for one in self.scheduler} == {one.request_id for one in self.alive}
        assert all(not one.blocks for one in list(self.scheduler)[self.scheduler.num_running :])

    def teardown(self) -> None:
        for _ in range(2000):
            if not self.alive:
                break
            self.step(0)
        assert not self.alive, "requests that never end"
        assert self.pool.num_free == self.pool.num_blocks


AnyOrderOfEvents.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=60)
TestAnyOrderOfEvents = AnyOrderOfEvents.TestCase
