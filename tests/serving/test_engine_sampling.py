"""From logits to tokens."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from readahead_serving.engine.request import SamplingParams
from readahead_serving.engine.sampling import TokenChooser, choose_tokens, sample

DRAWS = 2000


def params(**values: Any) -> SamplingParams:
    return SamplingParams(max_tokens=10, **values)


def drawn(logits: Tensor, sampling: SamplingParams) -> dict[int, float]:
    """The share of each token over evenly spread draws: the distribution sampled from, to 1/DRAWS."""
    counts = Counter(sample(logits, sampling, (n + 0.5) / DRAWS) for n in range(DRAWS))
    return {token: count / DRAWS for token, count in counts.items()}


def filtered(logits: list[float], sampling: SamplingParams) -> dict[int, float]:
    """The same by the definitions, one token at a time."""
    weights = {token: math.exp(logit / sampling.temperature) for token, logit in enumerate(logits)}
    ranked = sorted(weights, key=lambda token: -weights[token])
    kept = ranked[: sampling.top_k or None]
    wanted = sampling.top_p * sum(weights[token] for token in kept)
    nucleus: list[int] = []
    for token in kept:
        nucleus.append(token)
        if sum(weights[one] for one in nucleus) >= wanted:
            break
    least = sampling.min_p * weights[ranked[0]]
    final = {token: weights[token] for token in nucleus if weights[token] >= least}
    return {token: weight / sum(final.values()) for token, weight in final.items()}


@pytest.mark.parametrize(
    "sampling",
    [
        params(),
        params(temperature=0.5),
        params(top_k=3),
        params(top_p=0.6),
        params(min_p=0.2),
        params(temperature=1.7, top_k=6, top_p=0.8, min_p=0.05),
    ],
)
def test_tokens_come_as_often_as_the_filtered_distribution_says(sampling: SamplingParams) -> None:
    logits = [2.0, -1.0, 1.5, 0.3, 1.1, -0.7, 0.9, 1.9]
    expected = filtered(logits, sampling)
    assert drawn(torch.tensor(logits), sampling) == pytest.approx(expected, abs=1.5 / DRAWS)


@given(st.lists(st.integers(-60, 60), min_size=2, max_size=30, unique=True), st.floats(0.05, 0.99), st.integers(1, 30))
def test_only_tokens_that_the_filters_keep_are_drawn(tenths: list[int], top_p: float, top_k: int) -> None:
    logits = [tenth / 10 for tenth in tenths]
    kept = filtered(logits, params(top_p=min(1.0, top_p + 1e-3), top_k=top_k))
    sampling = params(top_p=top_p, top_k=top_k)
    assert {sample(torch.tensor(logits), sampling, n / 50) for n in range(50)} <= set(kept)


def test_a_nucleus_wider_than_the_first_guess_is_found_all_the_same() -> None:
    sampling = params(top_p=0.9)
    flat = torch.zeros(8192) + torch.arange(8192) * 1e-4
    smallest = min(sample(flat, sampling, n / 500) for n in range(500))
    probs = flat.softmax(-1)
    assert float(probs[smallest:].sum()) <= 0.9 + 1e-3
    assert smallest > 100


def test_the_greatest_draw_there_is_still_gives_a_token() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        logits = torch.randn(50, generator=generator)
        assert 0 <= sample(logits, params(), math.nextafter(1, 0)) < 50


def test_temperature_zero_takes_the_best_token_of_every_row() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [9.0, 3.0, 1.0]])
    assert choose_tokens(logits, [TokenChooser(params(temperature=0)) for _ in range(2)]) == [([1], []), ([0], [])]


def test_penalties_turn_a_repeated_token_down_and_count_how_often_it_came() -> None:
    def third(**penalties: float) -> int:
        chooser = TokenChooser(params(temperature=0, **penalties))
        for _ in range(2):
            chooser.accept(0)
        return choose_tokens(torch.tensor([[3.0, 1.5, 0.0]]), [chooser])[0].tokens[0]

    assert third() == 0
    assert third(presence_penalty=1.4) == 0
    assert third(presence_penalty=1.6) == 1
    assert third(frequency_penalty=0.7) == 0
    assert third(frequency_penalty=0.8) == 1


def chosen(seed: int | None, neighbours: int) -> list[int]:
    generator = torch.Generator().manual_seed(0)
    choosers = [TokenChooser(params(seed=seed))] + [TokenChooser(params(seed=n)) for n in range(neighbours)]
    tokens: list[int] = []
    for _ in range(30):
        row = torch.randn(1, 500, generator=generator)
        tokens += choose_tokens(torch.cat([row, torch.randn(neighbours, 500)]), choosers)[0].tokens
    return tokens


def test_a_seed_gives_the_same_tokens_alone_and_among_others() -> None:
    assert chosen(7, 0) == chosen(7, 5)
    assert chosen(-7, 0) == chosen(-7, 0)
    assert chosen(7, 0) != chosen(8, 0)
    assert chosen(None, 0) != chosen(None, 0)


def test_a_row_without_a_finite_logit_gets_no_token_and_its_neighbours_do() -> None:
    nan, none = torch.full((1, 3), math.nan), torch.full((1, 3), -math.inf)
    rows = torch.cat([nan, torch.tensor([[0.0, 1.0, 0.0]]), none])
    choosers = [TokenChooser(params(temperature=t)) for t in (1.0, 0, 1.0)]
    assert [chosen.tokens for chosen in choose_tokens(rows, choosers)] == [[], [1], []]
