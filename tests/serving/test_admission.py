"""Who is let in: by predicted seconds, fair shares and deadlines. Costs are given, so no machine's speed matters."""

from __future__ import annotations

import time

import msgspec
import pytest

from readahead_serving.backends.admission import AdmissionControl
from readahead_serving.engine.request import EngineStats, GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.cost import StepCosts
from readahead_serving.errors import DeadlineExceeded, EngineBusy, RequestRefused
from readahead_serving.settings import ServingSettings

COSTS = StepCosts(
    step_s=0.0,
    decode_row_s=0.01,
    decode_context_s=0,
    prefill_token_s=0.001,
    prefill_pair_s=0,
    prefill_context_s=0,
    is_measured=True,
)
IDLE = EngineStats(
    steps=9,
    running=0,
    waiting=0,
    kv_tokens_used=0,
    kv_tokens_total=100_000,
    prompt_tokens_computed=0,
    completion_tokens=0,
    aborted=0,
    costs=COSTS,
)
SETTINGS = ServingSettings(max_running=4, max_waiting=100, max_queue_seconds=10)


def control(settings: ServingSettings = SETTINGS) -> AdmissionControl:
    return AdmissionControl(settings, kv_tokens=100_000)


def asked(
    name: str, tokens: int, *, first: int = 1, salt: str = "", group: str = "", deadline_in: float | None = None
) -> GenerationRequest:
    deadline = None if deadline_in is None else time.time() + deadline_in
    return GenerationRequest(
        request_id=name,
        prompt_tokens=[first] * tokens,
        sampling=SamplingParams(max_tokens=10),
        salt=salt,
        group=group,
        deadline=deadline,
    )


def test_seconds_and_not_requests_fill_the_queue() -> None:
    long, short = control(), control()
    for number in range(3):
        long.admit(asked(f"long {number}", 4000, first=number), IDLE)
    with pytest.raises(EngineBusy) as busy:
        long.admit(asked("one more", 10, first=9), IDLE)
    assert busy.value.retry_after_s == pytest.approx(12, rel=0.01)
    for number in range(100):
        short.admit(asked(f"short {number}", 50, first=number), IDLE)


def test_the_engines_own_backlog_counts_and_what_it_has_seen_is_not_counted_twice() -> None:
    under_test = control()
    under_test.admit(asked("a", 6000, first=1), IDLE)
    seen = msgspec.structs.replace(IDLE, received=1, backlog_s=6.0)
    assert under_test.predicted_wait_s(seen) == pytest.approx(6)
    assert under_test.predicted_wait_s(IDLE) == pytest.approx(6)
    with pytest.raises(EngineBusy):
        under_test.admit(asked("b", 10), msgspec.structs.replace(seen, backlog_s=11.0))


def test_prompts_that_share_a_computed_prefix_cost_only_their_own_tokens() -> None:
    under_test = control()
    under_test.admit(asked("first", 6400), IDLE)
    under_test.started("first")
    under_test.end("first", 10)
    served = msgspec.structs.replace(IDLE, received=1)
    for number in range(50):
        under_test.admit(asked(f"hit {number}", 6400 + number), served)
    assert under_test.predicted_wait_s(served) < 7
    other = control()
    other.admit(asked("first", 6400, salt="a"), IDLE)
    other.started("first")
    other.end("first", 10)
    other.admit(asked("another tenant's", 6400, salt="b"), served)
    assert other.predicted_wait_s(served) == pytest.approx(6.4)


def test_questions_on_a_pack_cost_only_their_own_tokens_from_the_first_on() -> None:
    under_test, without = control(), control()
    for number in range(100):
        under_test.admit(asked(f"q{number}", 6040), IDLE, 6000)
    assert under_test.predicted_wait_s(IDLE) == pytest.approx(4.0, rel=0.01)
    with pytest.raises(EngineBusy):
        for number in range(3):
            without.admit(asked(f"q{number}", 6040), IDLE)


def test_a_full_batch_counts_the_time_until_a_place_is_free() -> None:
    under_test = control()
    under_test.admit(asked("measured", 1), IDLE)
    under_test.end("measured", 1000)
    served = msgspec.structs.replace(IDLE, received=100)
    for number in range(4):
        under_test.admit(asked(f"running {number}", 1), served)
    assert under_test.predicted_wait_s(served) == pytest.approx(100 * 0.04 / 4)


def test_a_deadline_that_cannot_be_met_is_refused_at_once_with_the_reason() -> None:
    under_test = control()
    with pytest.raises(DeadlineExceeded):
        under_test.admit(asked("too long a prompt", 6000, deadline_in=2), IDLE)
    behind = msgspec.structs.replace(IDLE, backlog_s=5.0)
    with pytest.raises(EngineBusy) as busy:
        under_test.admit(asked("too long a queue", 100, deadline_in=2), behind)
    assert busy.value.retry_after_s == pytest.approx(5)
    under_test.admit(asked("in time", 100, deadline_in=30), behind)


def test_nothing_is_refused_by_costs_that_nobody_has_measured() -> None:
    guess = msgspec.structs.replace(IDLE, costs=StepCosts(), backlog_s=1000.0)
    control().admit(asked("first", 100, deadline_in=0.1), guess)


def test_a_tenant_fills_its_own_share_of_the_queue_and_no_more() -> None:
    under_test = control(SETTINGS.model_copy(update={"tenant_share": 0.5}))
    for number in range(2):
        under_test.admit(asked(f"a{number}", 3000, first=number, salt="a"), IDLE)
    with pytest.raises(EngineBusy, match="share"):
        under_test.admit(asked("a2", 10, salt="a"), IDLE)
    under_test.admit(asked("b", 10, salt="b"), IDLE)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_call_too_large_for_an_idle_engine_is_refused_for_good_and_not_told_to_come_back(share: float) -> None:
    settings = SETTINGS.model_copy(update={"tenant_share": share})
    alone, beside = control(settings), control(settings)
    beside.admit(asked("other", 10, first=9), IDLE)
    for under_test in (alone, beside):
        for number in range(3 if share == 1 else 2):
            under_test.admit(asked(f"{number}", 4000, first=number, group="call"), IDLE)
    with pytest.raises(RequestRefused, match="fewer prompts"):
        alone.admit(asked("3", 4000, first=3, group="call"), IDLE)
    with pytest.raises(EngineBusy):
        alone.admit(asked("3", 4000, first=3, group="other call"), IDLE)
    with pytest.raises(EngineBusy):
        beside.admit(asked("3", 4000, first=3, group="call"), IDLE)
