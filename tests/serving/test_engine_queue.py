"""Who is next: priorities with aging, fair shares between tenants, places kept through preemption."""

from __future__ import annotations

from collections import Counter

from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.request import GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.loop import AGING, Scheduler
from readahead_serving.engine.sequence import Sequence

BLOCK = 4


def make(max_running: int = 1, blocks: int = 1000, **options: float) -> Scheduler:
    return Scheduler(BlockPool(blocks, BLOCK), max_running=max_running, prefill_chunk_tokens=1000, **options)


def sequence(name: str, *, prompt: int = 8, priority: int = 0, tenant: str = "") -> Sequence:
    return Sequence(
        GenerationRequest(
            request_id=name,
            prompt_tokens=[1] * prompt,
            sampling=SamplingParams(max_tokens=1000),
            priority=priority,
            salt=tenant,
        )
    )


def step(scheduler: Scheduler) -> list[str]:
    plan = scheduler.schedule()
    for chunk in plan.chunks:
        chunk.sequence.num_computed = chunk.end
        if chunk.sequence.num_pending == 0:
            chunk.sequence.token_ids.append(7)
    return [chunk.sequence.request_id for chunk in plan.chunks]


def order_of_service(scheduler: Scheduler) -> list[str]:
    """Runs each request for one step, alone, in the order that the scheduler chooses."""
    served = []
    while waiting := list(scheduler):
        [name] = step(scheduler)
        served.append(name)
        scheduler.remove(next(one for one in waiting if one.request_id == name))
    return served


def test_a_lower_priority_number_goes_first_and_equals_go_in_order_of_arrival() -> None:
    scheduler = make()
    for name, priority in (("later", 5), ("a", 0), ("urgent", -1), ("b", 0)):
        scheduler.add(sequence(name, priority=priority))
    assert order_of_service(scheduler) == ["urgent", "a", "b", "later"]


def test_a_low_priority_does_not_starve() -> None:
    scheduler = make()
    scheduler.add(sequence("patient", priority=1))
    for number in range(2 * AGING):
        scheduler.add(sequence(str(number)))
    assert order_of_service(scheduler).index("patient") <= AGING + 1


def test_the_youngest_of_the_lowest_priority_is_preempted() -> None:
    scheduler = make(max_running=8, blocks=8)
    first = sequence("first", prompt=2)
    scheduler.add(first)
    step(scheduler)
    background = sequence("background", prompt=2, priority=3)
    scheduler.add(background)
    step(scheduler)
    younger = sequence("younger", prompt=2)
    scheduler.add(younger)
    while scheduler.preemptions == 0:
        step(scheduler)
    assert (background.preemptions, younger.preemptions, first.preemptions) == (1, 0, 0)


def test_a_tenant_with_one_request_does_not_wait_for_anothers_hundred() -> None:
    scheduler = make()
    for number in range(100):
        scheduler.add(sequence(f"many {number}", tenant="many"))
    scheduler.add(sequence("single", tenant="one"))
    assert order_of_service(scheduler).index("single") <= 1


def test_tenants_get_equal_tokens_not_equal_requests() -> None:
    scheduler = make()
    for number in range(100):
        scheduler.add(sequence(f"long {number}", prompt=100, tenant="long"))
        scheduler.add(sequence(f"short {number}", prompt=10, tenant="short"))
    first = Counter(name.split()[0] for name in order_of_service(scheduler)[:55])
    assert 4 <= first["long"] <= 6
    assert first["short"] >= 49


def test_idleness_saves_up_no_claim() -> None:
    scheduler = make()
    scheduler.add(sequence("guest", tenant="guest"))
    for number in range(20):
        scheduler.add(sequence(f"host {number}", tenant="host"))
    for _ in range(10):  # the guest is served once and goes; the host goes on
        [name] = step(scheduler)
        scheduler.remove(next(one for one in scheduler if one.request_id == name))
    for number in range(20):
        scheduler.add(sequence(f"guest {number}", tenant="guest"))
    following = [name.split()[0] for name in order_of_service(scheduler)[:10]]
    assert abs(following.count("guest") - following.count("host")) <= 2


def test_no_tenant_gets_ahead_of_another_by_a_priority_but_each_may_step_back() -> None:
    scheduler = make()
    scheduler.add(sequence("greedy", tenant="greedy", priority=-50, prompt=64))
    scheduler.add(sequence("greedy too", tenant="greedy", priority=-50, prompt=64))
    scheduler.add(sequence("modest", tenant="modest"))
    scheduler.add(sequence("build", tenant="builder", priority=10))
    order = order_of_service(scheduler)
    assert order.index("modest") <= 1
    assert order[-1] == "build"


def test_a_tenant_holds_no_more_than_its_share_of_the_batch() -> None:
    scheduler = make(max_running=4, tenant_share=0.5)
    for number in range(4):
        scheduler.add(sequence(f"a{number}", tenant="a"))
    step(scheduler)
    assert scheduler.num_running == 2
    scheduler.add(sequence("b", tenant="b"))
    assert "b" in step(scheduler)
