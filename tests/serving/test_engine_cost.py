"""What a step costs and how large a chunk it takes, from made-up timings: no clock is read."""

from __future__ import annotations

import random

import pytest

from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.cost import CostModel, StepCosts, StepLoad, pairs
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.engine.scheduler.prefill import MIN_CHUNK_TOKENS
from readahead_serving.engine.sequence import Sequence

MACHINE = StepCosts(
    step_s=0.02,
    decode_row_s=1e-3,
    decode_context_s=2e-7,
    prefill_token_s=1e-3,
    prefill_pair_s=3e-8,
    prefill_context_s=4e-6,
    is_measured=True,
)
TARGET_S = 0.1


def random_load(dice: random.Random) -> StepLoad:
    rows, tokens, start = dice.randint(0, 16), dice.choice([0, dice.randint(2, 512)]), dice.randint(0, 6000)
    context = start if tokens else 0
    return StepLoad(rows, rows * dice.randint(10, 6000), tokens, pairs(start, start + tokens), context)


def fitted(machine: StepCosts, steps: int, noise: float = 0.1) -> CostModel:
    model, dice = CostModel(), random.Random(5)
    for _ in range(steps):
        load = random_load(dice)
        model.observe(load, machine.seconds(load) * dice.uniform(1 - noise, 1 + noise))
    return model


def test_steps_are_predicted_within_a_tenth_after_a_hundred_noisy_ones() -> None:
    costs, dice = fitted(MACHINE, 100).costs, random.Random(6)
    assert costs.is_measured
    for load in (random_load(dice) for _ in range(200)):
        assert costs.seconds(load) == pytest.approx(MACHINE.seconds(load), rel=0.1)


def test_a_machine_that_becomes_three_times_slower_is_noticed() -> None:
    model, dice = fitted(MACHINE, 100), random.Random(7)
    for _ in range(150):
        load = random_load(dice)
        model.observe(load, 3 * MACHINE.seconds(load))
    load = StepLoad(8, 8000, 256, pairs(1000, 1256))
    assert model.costs.seconds(load) == pytest.approx(3 * MACHINE.seconds(load), rel=0.15)


def test_what_prefill_costs_is_not_forgotten_while_only_streams_run() -> None:
    model = fitted(MACHINE, 100)
    decoding = StepLoad(4, 4000, 0, 0.0)
    for _ in range(2000):
        model.observe(decoding, MACHINE.seconds(decoding))
    assert model.costs.chunk_s(0, 256) == pytest.approx(MACHINE.chunk_s(0, 256), rel=0.2)


def test_one_hiccup_changes_little_and_no_cost_is_ever_negative() -> None:
    model, load = fitted(MACHINE, 100), StepLoad(4, 4000, 0, 0.0)
    before = model.costs.seconds(load)
    model.observe(load, 60.0)
    assert model.costs.seconds(load) < 3 * before
    model.observe(StepLoad(0, 0, 512, pairs(0, 512)), 1e-6)
    assert min(model.costs.step_s, model.costs.decode_row_s, model.costs.prefill_token_s) >= 0


def test_nothing_counts_as_measured_before_a_prompt_was() -> None:
    model = CostModel()
    for _ in range(50):
        model.observe(StepLoad(1, 10, 0, 0.0), 0.01)
    assert not model.costs.is_measured


def sequence(name: str, prompt: int) -> Sequence:
    sampling = SamplingParams(max_tokens=10_000)
    return Sequence(GenerationRequest(request_id=name, prompt_tokens=[1] * prompt, sampling=sampling))


def step(scheduler: Scheduler) -> tuple[StepPlan, float]:
    """Plans a step and lets it take as long as `MACHINE` says."""
    plan = scheduler.schedule()
    seconds = MACHINE.seconds(plan.load)
    scheduler.observe(plan.load, seconds)
    for chunk in plan.chunks:
        chunk.sequence.num_computed = chunk.end
        if chunk.sequence.num_pending == 0:
            chunk.sequence.token_ids.append(7)
    return plan, seconds


def scheduler(target_s: float | None = TARGET_S) -> Scheduler:
    return Scheduler(BlockPool(1000, 16), max_running=16, prefill_chunk_tokens=512, tbt_target_s=target_s)


def test_running_streams_keep_their_target_while_a_long_prompt_prefills() -> None:
    under_test = scheduler()
    under_test.add(sequence("warm", 600))
    while any(one.num_pending > 1 for one in under_test):
        step(under_test)
    for number in range(8):
        under_test.add(sequence(f"stream {number}", 4))
        step(under_test)
    long = sequence("long", 8000)
    under_test.add(long)
    times = []
    while long.num_pending > 1:
        plan, seconds = step(under_test)
        assert sum(chunk.sequence is not long for chunk in plan.chunks) == 9, "a stream was left out"
        times.append(seconds)
    settled = times[5:]
    assert max(settled) <= TARGET_S * 1.1
    assert sum(settled[:-1]) / len(settled[:-1]) >= TARGET_S * 0.8, "time that the streams would have spared"


def test_small_chunks_far_into_a_prompt_are_known_to_be_dear() -> None:
    costs = fitted(MACHINE, 200).costs
    for start in (0, 3000, 7000):
        assert costs.chunk_s(start, start + 32) == pytest.approx(MACHINE.chunk_s(start, start + 32), rel=0.15)
    prompt, alone = sequence("alone", 1200), scheduler(target_s=None)
    alone.add(prompt)
    loads = []
    while prompt.num_pending > 1:
        loads.append((prompt.num_computed, alone.schedule().load.prefill_context))
        prompt.num_computed += min(512, prompt.num_pending)
    assert loads == [(0, 0), (512, 512), (1024, 1024)]
    chunks = [(start, min(start + 100, 750)) for start in range(0, 750, 100)]
    in_steps = sum(MACHINE.step_s + MACHINE.chunk_s(*chunk) for chunk in chunks)
    assert MACHINE.prefill_s(0, 750, chunk_tokens=100) == pytest.approx(in_steps)
    in_steps = sum(MACHINE.step_s + MACHINE.chunk_s(start, start + 100) for start in (500, 600, 700))
    assert MACHINE.prefill_s(500, 800, chunk_tokens=100) == pytest.approx(in_steps)


def test_without_streams_a_chunk_is_as_large_as_it_may_be() -> None:
    under_test = scheduler(target_s=0.001)
    under_test.add(sequence("alone", 2000))
    plans = [step(under_test)[0] for _ in range(3)]
    assert [plan.num_tokens for plan in plans] == [512, 512, 512]


def test_a_target_that_cannot_be_kept_still_lets_a_prompt_get_on() -> None:
    under_test = scheduler(target_s=0.001)
    under_test.add(sequence("stream", 1))
    step(under_test)
    under_test.add(sequence("long", 200))
    plan, _ = step(under_test)
    assert [chunk.count for chunk in plan.chunks] == [1, MIN_CHUNK_TOKENS]


def test_the_backlog_is_the_seconds_that_waiting_prompts_take_without_what_is_cached() -> None:
    under_test = scheduler(target_s=None)
    under_test.add(sequence("warm", 600))
    for _ in range(40):
        step(under_test)
    cached = sequence("cached", 4000)
    whole = sequence("whole", 4000)
    assert under_test.backlog_s() == 0
    under_test.add(cached)
    cached.num_expected = 3900
    little = under_test.backlog_s()
    under_test.add(whole)
    assert under_test.backlog_s() - little > 10 * little
