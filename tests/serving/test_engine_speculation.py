"""Speculation: the same tokens in fewer steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from readahead_serving.engine.core import EngineCore
from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.request import EngineStats, GenerationRequest, SamplingParams
from readahead_serving.engine.scheduler.loop import Scheduler
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.engine.speculate import NO_SPECULATION, PromptLookup, Speculation

VOCAB = 12
EOS = 11


class HashModel:
    """Its next token depends on the last three, so that texts recur without being a mere circle."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], Tensor] = {}

    def execute(self, plan: StepPlan) -> Tensor:
        rows = []
        for chunk in plan.chunks:
            known = chunk.sequence.token_ids + chunk.sequence.draft
            rows += [known[: chunk.end - n] for n in range(chunk.num_rows - 1, -1, -1)]
        return torch.stack([self._logits(tokens) for tokens in rows]) if rows else torch.empty(0, VOCAB)

    def _logits(self, tokens: Sequence[int]) -> Tensor:
        last = tuple(tokens[-3:])
        if last not in self._known:
            self._known[last] = torch.randn(VOCAB, generator=torch.Generator().manual_seed(hash(last) % 2**31))
        return self._known[last]


def run(
    prompts: Sequence[Sequence[int]], speculation: Speculation, *, blocks: int = 64, **sampling: Any
) -> tuple[list[list[int]], list[str | None], EngineStats]:
    """Completes all prompts together: their tokens, why they ended, and what it took."""
    pool = BlockPool(blocks, 4)
    scheduler = Scheduler(pool, max_running=8, prefill_chunk_tokens=16)
    core = EngineCore(HashModel(), pool, scheduler, lambda _: None, [EOS], speculation)
    values: dict[str, Any] = {"max_tokens": 40, "temperature": 0} | sampling
    for number, prompt in enumerate(prompts):
        core.add(
            GenerationRequest(request_id=str(number), prompt_tokens=list(prompt), sampling=SamplingParams(**values))
        )
    tokens: list[list[int]] = [[] for _ in prompts]
    reasons: list[str | None] = [None] * len(prompts)
    while core.has_work:
        core.step()
        for output in core.take_outputs():
            tokens[int(output.request_id)] += output.token_ids
            reasons[int(output.request_id)] = output.finish_reason
    core.step()  # idle: proves that no KV is lost
    return tokens, reasons, core.stats()


PROMPTS = st.lists(st.lists(st.integers(0, VOCAB - 2), min_size=1, max_size=20), min_size=1, max_size=4)
SAMPLINGS: list[dict[str, Any]] = [
    {},
    {"ignore_eos": True},
    {"frequency_penalty": 0.3, "presence_penalty": 0.2},
    {"logit_bias": ((3, 1.0), (4, -2.0)), "max_tokens": 7},
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["plain", "no end", "penalties", "bias"])
@settings(max_examples=15, deadline=None)
@given(prompts=PROMPTS, count=st.integers(1, 6), blocks=st.integers(20, 64))
def test_greedy_tokens_and_ends_are_the_same_with_speculation(
    prompts: list[list[int]], count: int, blocks: int, sampling: dict[str, Any]
) -> None:
    plain = run(prompts, NO_SPECULATION, **sampling)
    ahead = run(prompts, Speculation(count, 8), blocks=blocks, **sampling)
    assert ahead[:2] == plain[:2]
    assert ahead[2].completion_tokens == plain[2].completion_tokens


def test_a_text_that_recurs_takes_fewer_steps() -> None:
    period = [random.Random(5).randrange(VOCAB - 1) for _ in range(3)]
    tokens, _, plain = run([period], NO_SPECULATION, max_tokens=200, ignore_eos=True)
    again, _, ahead = run([period], Speculation(4, 8), max_tokens=200, ignore_eos=True)
    assert again == tokens
    assert ahead.draft_tokens >= ahead.draft_tokens_accepted > 50
    assert ahead.steps == plain.steps - ahead.draft_tokens_accepted


@pytest.mark.parametrize(
    ("speculation", "sampling"),
    [(Speculation(4, 1), {}), (Speculation(0, 8), {}), (Speculation(4, 8), {"temperature": 1.0, "seed": 3})],
    ids=["batch above the limit", "turned off", "sampled"],
)
def test_nothing_is_guessed_ahead(speculation: Speculation, sampling: dict[str, Any]) -> None:
    stats = run([[1, 2, 3], [4, 5, 6]], speculation, ignore_eos=True, **sampling)[2]
    assert stats.draft_tokens == 0


def test_log_probabilities_are_the_same_with_speculation() -> None:
    def told(speculation: Speculation) -> list[float]:
        pool = BlockPool(64, 4)
        scheduler = Scheduler(pool, max_running=8, prefill_chunk_tokens=16)
        core = EngineCore(HashModel(), pool, scheduler, lambda _: None, [EOS], speculation)
        params = SamplingParams(max_tokens=60, temperature=0, ignore_eos=True, logprobs=2)
        core.add(GenerationRequest(request_id="x", prompt_tokens=[1, 2], sampling=params))
        seen: list[float] = []
        while core.has_work:
            core.step()
            for output in core.take_outputs():
                assert [entry.token_id for entry in output.logprobs] == output.token_ids
                seen += [entry.logprob for entry in output.logprobs]
        return seen

    assert told(NO_SPECULATION) == pytest.approx(told(Speculation(4, 8)))


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 5))
def test_what_is_proposed_followed_the_same_tokens_before(tokens: list[int], count: int) -> None:
    lookup = PromptLookup()
    for size in range(len(tokens) + 1):
        known = tokens[:size]
        draft = lookup.propose(known, count)
        assert len(draft) <= count
        if draft:
            ends = [end for end in range(2, size) if known[end - 2 : end] == known[-2:]]
            assert any(known[end : end + len(draft)] == draft for end in ends)
        else:
            assert not any(known[end - 2 : end] == known[-2:] for end in range(2, size))
