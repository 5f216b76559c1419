"""Which packs stay in memory: pins and their shares, and what a circle of packs leaves in place."""

from __future__ import annotations

from collections import OrderedDict

import hypothesis.strategies as st
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from readahead_serving.engine.kv.pack_policy import PackPolicy

CAP = 800
PIN_SHARE = 0.5


def use(policy: PackPolicy, pack: str, nbytes: int = 100, tenant: str = "a") -> bool:
    """One request for a pack, as the shelf makes it; whether it was in memory already."""
    policy.hit(pack)
    if pack in policy.residents:
        return True
    policy.admit(pack, nbytes, tenant)
    return False


def circle(packs: int, rounds: int) -> list[str]:
    return [f"p{number}" for _ in range(rounds) for number in range(packs)]


def hits_in_last_round(policy: PackPolicy, packs: int, rounds: int) -> int:
    outcomes = [use(policy, pack) for pack in circle(packs, rounds)]
    return sum(outcomes[-packs:])


def test_twenty_packs_in_a_circle_leave_six_of_eight_places_hot() -> None:
    for rounds in (2, 5, 40, 100):
        assert hits_in_last_round(PackPolicy(CAP, PIN_SHARE), 20, rounds) >= 6


def test_plain_lru_would_keep_none_of_them() -> None:
    lru: OrderedDict[str, None] = OrderedDict()
    hits = 0
    for pack in circle(20, 5):
        hits += pack in lru
        lru[pack] = None
        lru.move_to_end(pack)
        if len(lru) > 8:
            lru.popitem(last=False)
    assert hits == 0


def test_a_sweep_of_many_packs_does_not_drive_out_what_is_asked_for_daily() -> None:
    policy = PackPolicy(CAP, PIN_SHARE)
    daily = [f"daily{number}" for number in range(5)]
    for _ in range(4):
        for pack in daily:
            use(policy, pack)
    for number in range(32):
        use(policy, f"batch{number}")
    assert all(pack in policy.residents for pack in daily)


def test_what_is_asked_for_now_drives_out_what_was_asked_for_once() -> None:
    policy = PackPolicy(CAP, PIN_SHARE)
    for pack in circle(8, 30):
        use(policy, pack)
    fresh = [f"new{number}" for number in range(6)]
    for _ in range(120):
        for pack in fresh:
            use(policy, pack)
    assert all(use(policy, pack) for pack in fresh)


def test_a_pin_over_the_tenants_share_is_refused_with_the_numbers() -> None:
    policy = PackPolicy(CAP, PIN_SHARE)
    for pack in ("x", "y"):
        policy.admit(pack, 200, "a")
        assert policy.pin(pack).granted
    policy.admit("z", 100, "a")
    refused = policy.pin("z")
    assert (refused.granted, refused.bytes_needed, refused.bytes_available) == (False, 100, 0)
    policy.admit("other", 100, "b")
    assert policy.pin("other").granted, "one tenant's pins must not use up another's share"
    policy.unpin("x")
    assert policy.pin("z").granted


def test_a_pinned_pack_is_never_evicted() -> None:
    policy = PackPolicy(CAP, PIN_SHARE)
    policy.admit("kept", 300, "a")
    policy.pin("kept")
    for pack in circle(30, 5):
        use(policy, pack)
        assert "kept" in policy.residents
    assert not policy.admit("huge", 600, "a").admitted, "it would have to take the pinned one's place"
    assert "kept" in policy.residents


class Life(RuleBasedStateMachine):
    """Any order of calls keeps the caps, the pins and the books."""

    packs = st.sampled_from([f"p{number}" for number in range(12)])

    def __init__(self) -> None:
        super().__init__()
        self.policy = PackPolicy(CAP, PIN_SHARE)
        self.pinned: set[str] = set()

    @rule(pack=packs, nbytes=st.integers(1, 900), tenant=st.sampled_from("ab"))
    def use(self, pack: str, nbytes: int, tenant: str) -> None:
        self.policy.hit(pack)
        if pack in self.policy.residents:
            return
        before = self.policy.residents
        admission = self.policy.admit(pack, nbytes, tenant)
        assert (pack in self.policy.residents) == admission.admitted
        assert before - self.policy.residents == set(admission.evicted)
        assert not set(admission.evicted) & self.pinned

    @rule(pack=packs)
    def pin(self, pack: str) -> None:
        if pack in self.policy.residents and self.policy.pin(pack).granted:
            self.pinned.add(pack)

    @rule(pack=packs)
    def unpin(self, pack: str) -> None:
        self.policy.unpin(pack)
        self.pinned.discard(pack)

    @rule(pack=packs)
    def forget(self, pack: str) -> None:
        self.policy.forget(pack)
        self.pinned.discard(pack)

    @invariant()
    def caps_hold(self) -> None:
        assert self.policy.used_bytes <= CAP
        assert all(self.policy.pinned_bytes(tenant) <= CAP * PIN_SHARE for tenant in "ab")
        assert self.pinned <= self.policy.residents
        assert set(self.policy.eviction_order()) == self.policy.residents - self.pinned


TestLife = Life.TestCase


@given(st.lists(st.integers(0, 19), max_size=200))
def test_the_same_calls_give_the_same_answers(asked: list[int]) -> None:
    first, second = PackPolicy(CAP, PIN_SHARE), PackPolicy(CAP, PIN_SHARE)
    for number in asked:
        assert use(first, f"p{number}") == use(second, f"p{number}")
