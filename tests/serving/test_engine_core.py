"""The engine without its process, step by step, over a model that counts: the token after n is n + 1."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from readahead_serving.engine.core import EngineCore
from readahead_serving.engine.grammar import Constraint
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.messages import SequenceOutput
from readahead_serving.engine.request import DEADLINE_EXCEEDED, GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.scheduler.plan import StepPlan

VOCAB = 1000
EOS = 500
BROKEN = 666


class CountingModel:
    def __init__(self, vocab: int = VOCAB) -> None:
        self._vocab = vocab

    def execute(self, plan: StepPlan) -> Tensor:
        last = [chunk.token_ids[-1] for chunk in plan.chunks if chunk.catches_up]
        logits = torch.zeros(len(last), self._vocab)
        for row, token in enumerate(last):
            logits[row, (token + 1) % self._vocab] = math.nan if token == BROKEN else 10.0
        return logits


def unconstrained(sampling: SamplingParams) -> Constraint | None:
    assert sampling.json_schema is None
    return None


class Engine:
    def __init__(self, *, blocks: int = 64, max_running: int = 4, chunk: int = 8) -> None:
        self.pool = BlockPool(blocks, 4)
        scheduler = Scheduler(self.pool, max_running=max_running, prefill_chunk_tokens=chunk)
        self.core = EngineCore(CountingModel(), self.pool, scheduler, unconstrained, [EOS])

    def add(self, name: str, prompt: list[int], *, deadline: float | None = None, **sampling: Any) -> None:
        values: dict[str, Any] = {"max_tokens": 5, "temperature": 0} | sampling
        self.core.add(
            GenerationRequest(
                request_id=name, prompt_tokens=prompt, sampling=SamplingParams(**values), deadline=deadline
            )
        )

    def step(self) -> dict[str, SequenceOutput]:
        self.core.step()
        return {output.request_id: output for output in self.core.take_outputs()}

    def tokens(self) -> dict[str, list[int]]:
        return {name: output.token_ids for name, output in self.step().items()}

    def assert_idle(self) -> None:
        assert not self.core.has_work
        assert self.step() == {}  # proves the pool's integrity
        assert self.core.stats().kv_tokens_used == 0


def test_requests_join_and_leave_the_batch_at_every_step() -> None:
    engine = Engine()
    engine.add("a", [10], max_tokens=3)
    assert engine.tokens() == {"a": [11]}
    engine.add("b", [20], max_tokens=2)
    assert engine.tokens() == {"a": [12], "b": [21]}
    engine.add("c", [30], max_tokens=1)
    last = engine.step()
    assert {name: output.token_ids for name, output in last.items()} == {"a": [13], "b": [22], "c": [31]}
    assert {output.finish_reason for output in last.values()} == {"length"}
    engine.assert_idle()


def test_an_end_token_stops_and_is_counted_unless_it_is_to_be_ignored() -> None:
    engine = Engine()
    engine.add("stops", [EOS - 1])
    engine.add("goes on", [EOS - 1], ignore_eos=True, max_tokens=2)
    first = engine.step()
    assert (first["stops"].token_ids, first["stops"].finish_reason) == ([EOS], "stop")
    assert first["goes on"].finish_reason is None
    assert engine.tokens() == {"goes on": [EOS + 1]}
    engine.assert_idle()


def test_an_abort_in_the_queue_in_prefill_and_in_decode_frees_the_kv_at_once() -> None:
    engine = Engine(max_running=2)
    engine.add("decoding", [1], max_tokens=100)
    engine.step()
    engine.add("prefilling", [1] * 30)
    engine.step()
    engine.add("queued", [1])
    assert engine.step().keys() == {"decoding"}
    stats = engine.core.stats()
    assert (stats.running, stats.waiting) == (2, 1)
    used = stats.kv_tokens_used
    for name in ("queued", "prefilling", "decoding"):
        engine.core.abort(name)
        [output] = engine.core.take_outputs()
        assert (output.request_id, output.finish_reason, output.error) == (name, "abort", None)
        assert name == "queued" or engine.core.stats().kv_tokens_used < used
        used = engine.core.stats().kv_tokens_used
    assert engine.core.stats().aborted == 3
    engine.assert_idle()


def test_aborting_twice_or_what_never_was_changes_nothing() -> None:
    engine = Engine()
    engine.add("a", [1])
    engine.core.abort("a")
    engine.core.abort("a")
    engine.core.abort("never")
    assert len(engine.core.take_outputs()) == 1
    engine.assert_idle()


def test_a_deadline_holds_in_the_queue_and_while_running(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(max_running=1)
    engine.add("running", [1], deadline=time.time() + 3600, max_tokens=100)
    engine.add("queued", [1], deadline=time.time() - 1)
    outputs = engine.step()
    assert (outputs["queued"].finish_reason, outputs["queued"].error) == ("abort", DEADLINE_EXCEEDED)
    assert outputs["running"].token_ids == [2]
    monkeypatch.setattr(time, "time", lambda: math.inf)
    outputs = engine.step()
    assert (outputs["running"].finish_reason, outputs["running"].error) == ("abort", DEADLINE_EXCEEDED)
    engine.assert_idle()


def test_a_request_whose_logits_are_broken_ends_alone() -> None:
    engine = Engine()
    engine.add("broken", [BROKEN])
    engine.add("sound", [1], max_tokens=2)
    outputs = engine.step()
    assert outputs["broken"].finish_reason == "error"
    assert outputs["sound"].token_ids == [2]
    assert engine.tokens() == {"sound": [3]}
    engine.assert_idle()


def test_a_preempted_request_writes_what_it_would_have_written() -> None:
    engine = Engine(blocks=6, max_running=3, chunk=64)
    engine.add("old", [100] * 7, max_tokens=14)
    written: dict[str, list[int]] = {"old": [], "young": []}
    starts: list[str] = []
    for _ in range(60):
        if len(written["old"]) == 1 and not written["young"]:
            engine.add("young", [200] * 3, max_tokens=14)
        for name, output in engine.step().items():
            written[name] += output.token_ids
            starts += [name] * (output.started_at is not None)
        if not engine.core.has_work:
            break
    assert engine.core.stats().preempted >= 1
    assert written == {"old": list(range(101, 115)), "young": list(range(201, 215))}
    assert starts == ["old", "young"]
    assert engine.core.stats().prompt_tokens_computed == 10
    engine.assert_idle()


def test_the_wait_is_told_once_with_the_first_output() -> None:
    engine = Engine(max_running=1)
    engine.add("a", [1], max_tokens=2)
    engine.add("b", [1], max_tokens=1)
    before = time.monotonic()
    first, second, third = engine.step(), engine.step(), engine.step()
    assert first["a"].started_at is not None
    assert second["a"].started_at is None
    assert third["b"].started_at is not None
    assert before <= first["a"].started_at <= third["b"].started_at


@pytest.mark.parametrize("prompt", [1, 7, 8, 9, 33])
def test_every_length_of_prompt_is_computed_once(prompt: int) -> None:
    engine = Engine()
    engine.add("a", [1] * prompt, max_tokens=1)
    while engine.core.has_work:
        engine.step()
    assert engine.core.stats().prompt_tokens_computed == prompt
    assert engine.core.stats().steps == math.ceil(prompt / 8)
    engine.assert_idle()
