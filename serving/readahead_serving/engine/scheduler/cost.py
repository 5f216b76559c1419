"""What a step costs: a linear model of its seconds, fitted to the steps that were run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

DECAY = 0.96
"""Weight that a measured step keeps from one step to the next: the last 25 steps or so rule."""
RIDGE = 1e-3
"""Pull towards the last fit, so that what has not been seen for a while keeps its cost."""
WARM_UP_STEPS = 16
"""Steps with prompt tokens measured before anything is refused by prediction: the first ones are slow."""
OUTLIER = 8.0
"""A step may count as this many times its prediction at most: one hiccup of the machine is no new cost."""
_SWEEPS = 8


class StepLoad(NamedTuple):
    """What one step does, in the terms that its time depends on."""

    decode_rows: int
    """Sequences that compute one token."""
    decode_context: int
    """Tokens whose keys and values those rows read."""
    prefill_tokens: int
    """Tokens of longer chunks."""
    prefill_pairs: float
    """Pairs of query and key in those chunks."""
    prefill_context: int = 0
    """Tokens that lie before those chunks, whose keys and values are fetched once for each chunk: what makes many small
    chunks dear."""


def pairs(start: int, end: int) -> float:
    """Pairs of query and key when the tokens from `start` to `end` attend to all up to themselves."""
    return (end - start) * (start + end + 1) / 2


class StepCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that each part of a step takes. None is negative.

    The defaults are a guess for a small model on a few cores, good for nothing but the first steps.
    """

    step_s: float = 0.01
    decode_row_s: float = 5e-4
    decode_context_s: float = 1e-7
    prefill_token_s: float = 5e-4
    prefill_pair_s: float = 1e-8
    prefill_context_s: float = 1e-7
    is_measured: bool = False
    """Whether the figures are measured well enough to refuse a request by them."""

    def seconds(self, load: StepLoad) -> float:
        """Predicted seconds of one step."""
        return self.step_s + (
            self.decode_row_s * load.decode_rows
            + self.decode_context_s * load.decode_context
            + self.prefill_token_s * load.prefill_tokens
            + self.prefill_pair_s * load.prefill_pairs
            + self.prefill_context_s * load.prefill_context
        )

    def prefill_s(self, start: int, end: int, *, chunk_tokens: int) -> float:
        """Predicted seconds to compute the tokens from `start` to `end` in chunks of `chunk_tokens`."""
        steps = -(-(end - start) // chunk_tokens)
        fetched = chunk_tokens * steps * (steps - 1) // 2 + start * (steps - 1)  # beside the first chunk's
        return steps * self.step_s + self.chunk_s(start, end) + self.prefill_context_s * fetched

    def chunk_s(self, start: int, end: int) -> float:
        """Predicted seconds that a chunk adds to a step."""
        computed = self.prefill_token_s * (end - start) + self.prefill_pair_s * pairs(start, end)
        return computed + self.prefill_context_s * start

    def tokens_within(self, seconds: float, start: int, most: int) -> int:
        """The longest chunk from `start`, up to `most` tokens, that adds at most `seconds` to a step."""
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self.chunk_s(start, start + middle) <= seconds:
                low = middle
            else:
                high = middle - 1
        return low


_SCALES = (1.0, 1.0, 1e3, 1e2, 1e5, 1e3)
"""Typical sizes of the six terms, so that the fit is well conditioned."""


class CostModel:
    """Fits `StepCosts` to measured steps by recursive least squares with forgetting and no negative cost.

    Errors count relative to a step's own length, so that long prefills do not drown what decodes tell. The normal
    equations decay by `DECAY` a step and are solved by a few sweeps of projected coordinate descent from the last fit
    (Franc, Hlaváč, Navara: Sequential coordinate-wise algorithm for the non-negative least squares problem, 2005).
    """

    def __init__(self) -> None:
        guess = StepCosts()
        self._weights = [
            guess.step_s * _SCALES[0],
            guess.decode_row_s * _SCALES[1],
            guess.decode_context_s * _SCALES[2],
            guess.prefill_token_s * _SCALES[3],
            guess.prefill_pair_s * _SCALES[4],
            guess.prefill_context_s * _SCALES[5],
        ]
        size = len(_SCALES)
        self._products = [[0.0] * size for _ in range(size)]
        self._targets = [0.0] * size
        self._prefill_steps = 0
        self._costs = guess

    @property
    def costs(self) -> StepCosts:
        return self._costs

    def observe(self, load: StepLoad, seconds: float) -> None:
        """Takes in one step that was run."""
        if seconds <= 0:
            return
        if self._costs.is_measured and (predicted := self._costs.seconds(load)) > 0:
            seconds = min(seconds, OUTLIER * predicted)
        self._prefill_steps += load.prefill_tokens > 0
        terms = [value / scale / seconds for value, scale in zip((1, *load), _SCALES, strict=True)]
        for i, term in enumerate(terms):
            row = self._products[i]
            for j, other in enumerate(terms):
                row[j] = DECAY * row[j] + term * other
            self._targets[i] = DECAY * self._targets[i] + term
        self._fit()

    def _fit(self) -> None:
        before = list(self._weights)
        for _ in range(_SWEEPS):
            for i, row in enumerate(self._products):
                self._weights[i] = _minimum(i, row, self._targets[i], self._weights, before[i])
        step, decode_row, decode_context, prefill_token, prefill_pair, prefill_context = (
            weight / scale for weight, scale in zip(self._weights, _SCALES, strict=True)
        )
        self._costs = StepCosts(
            step_s=step,
            decode_row_s=decode_row,
            decode_context_s=decode_context,
            prefill_token_s=prefill_token,
            prefill_pair_s=prefill_pair,
            prefill_context_s=prefill_context,
            is_measured=self._prefill_steps >= WARM_UP_STEPS,
        )


def _minimum(i: int, row: Sequence[float], target: float, weights: Sequence[float], before: float) -> float:
    """The i-th weight, at least 0, that is best while the others stay."""
    pull = RIDGE * (row[i] + 1.0)
    others = sum(value * weight for value, weight in zip(row, weights, strict=True)) - row[i] * weights[i]
    return max(0.0, (target - others + pull * before) / (row[i] + pull))
