"""From logits to the next token of each request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from readahead_serving.engine.grammar import Constraint
from readahead_serving.engine.request import SamplingParams, TokenLogprobs

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy: dividing by them would overflow."""
NUCLEUS_GUESS = 1024
"""Candidates sorted first to find the nucleus: sorting 49,152 logits takes 3 ms, finding the top 1,024 takes 0.05."""


class Chosen(NamedTuple):
    """What one step adds to one request."""

    tokens: list[int]
    """In order; empty where no token has a finite logit, which only a broken model or grammar brings about."""
    logprobs: list[TokenLogprobs]
    """One for each of the tokens, where the request asked for them."""


class TokenChooser:
    """How one request chooses its tokens, and what it has chosen so far.

    Randomness comes from a generator of its own, one number for each sampled token, so that a seed gives the same
    tokens alone and in a batch.
    """

    def __init__(self, params: SamplingParams, constraint: Constraint | None = None) -> None:
        self.params = params
        self.constraint = constraint
        self._counts: Counter[int] = Counter()
        self._bias = dict(params.logit_bias)
        seed = None if params.seed is None else params.seed % 2**64
        self._rng = np.random.default_rng(seed)

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature < GREEDY_BELOW

    @property
    def structure_error(self) -> str | None:
        """Why the grammar can't be followed any further; None while it can, or without one."""
        return None if self.constraint is None else self.constraint.error

    def edit(self, logits: Tensor) -> None:
        """Applies the bias, penalties and the grammar to the request's logits, (vocab,), in place."""
        if self._bias:
            logits[torch.tensor(list(self._bias))] += torch.tensor(list(self._bias.values()), dtype=logits.dtype)
        if self._counts and (self.params.presence_penalty or self.params.frequency_penalty):
            ids = torch.tensor(list(self._counts.keys()))
            counts = torch.tensor(list(self._counts.values()), dtype=logits.dtype)
            logits[ids] -= self.params.presence_penalty + self.params.frequency_penalty * counts
        if self.constraint is not None:
            logits.masked_fill_(torch.from_numpy(~self.constraint.allowed()), float("-inf"))

    def sample(self, logits: Tensor) -> int:
        """Draws a token from the edited logits, (vocab,)."""
        return sample(logits, self.params, float(self._rng.random()))

    def accept(self, token_id: int) -> list[int]:
        """Notes a chosen token. Returns the tokens that are forced to follow it."""
        forced: list[int] = []
        if self.constraint is not None:
            # forced tokens are never computed as choices, so they would have no log probabilities
            forced = self.constraint.accept(token_id, with_forced=self.params.logprobs is None)
        self._counts.update((token_id, *forced))
        return forced

    def logprobs(self, logits: Tensor, tokens: Sequence[int]) -> list[TokenLogprobs]:
        """Log probabilities by the unedited `logits`, (n, vocab), of the n tokens; none if not asked for."""
        if self.params.logprobs is None or not tokens:
            return []
        return token_logprobs(logits[: len(tokens)], tokens, self.params.logprobs)


def token_logprobs(logits: Tensor, tokens: Sequence[int], top: int) -> list[TokenLogprobs]:
    """Log probabilities of n tokens by (n, vocab) logits, and of the `top` likeliest beside each."""
    table = torch.log_softmax(logits.float(), dim=-1)
    best = table.topk(min(top, table.shape[-1]), dim=-1)
    return [
        TokenLogprobs(token_id=token, logprob=float(row[token]), top=list(zip(ids, values, strict=True)))
        for token, row, ids, values in zip(tokens, table, best.indices.tolist(), best.values.tolist(), strict=True)
    ]


@torch.inference_mode()  # logits come from inference mode and are edited in place
def choose_tokens(logits: Tensor, choosers: Sequence[TokenChooser]) -> list[Chosen]:
    """Chooses one token for each row.

    Args:
        logits: (R, vocab) float32; edited in place.
        choosers: R of them.
    """
    raw = [row.clone() if chooser.params.logprobs is not None else row for row, chooser in _rows(logits, choosers)]
    for row, chooser in _rows(logits, choosers):
        chooser.edit(row)
    values, greedy = logits.max(dim=-1)
    best: list[int] = greedy.tolist()
    finite: list[bool] = torch.isfinite(values).tolist()
    tokens = [
        [token if chooser.is_greedy else chooser.sample(row)] if usable else []
        for (row, chooser), token, usable in zip(_rows(logits, choosers), best, finite, strict=True)
    ]
    return [
        Chosen(chosen, chooser.logprobs(row[None], chosen))
        for chosen, row, chooser in zip(tokens, raw, choosers, strict=True)
    ]


def _rows(logits: Tensor, choosers: Sequence[TokenChooser]) -> list[tuple[Tensor, TokenChooser]]:
    return list(zip(logits, choosers, strict=True))


@torch.inference_mode()
def verify_draft(logits: Tensor, chooser: TokenChooser, draft: Sequence[int], eos_ids: Collection[int]) -> Chosen:
    """Chooses greedily down the rows for as long as the draft said the same; the row after it is a token for free.

    Args:
        logits: (1 + draft, vocab) float32: after the last certain token, and after each of the draft; edited in place.
        chooser: A greedy one without a constraint. It has accepted all but the last token that is returned.
        draft: What was proposed.
        eos_ids: Tokens after which nothing counts.
    """
    assert chooser.is_greedy and chooser.constraint is None
    raw = logits.clone() if chooser.params.logprobs is not None else logits
    tokens: list[int] = []
    for row, proposed in zip(logits, (*draft, None), strict=True):
        chooser.edit(row)
        value, token = row.max(dim=-1)
        if not torch.isfinite(value):
            return Chosen([], [])
        tokens.append(int(token))
        if tokens[-1] != proposed or proposed in eos_ids:
            break
        chooser.accept(tokens[-1])
    return Chosen(tokens, chooser.logprobs(raw, tokens))


def sample(logits: Tensor, params: SamplingParams, draw: float) -> int:
    """Samples by inverting the cumulative distribution, in the order of token ids.

    Temperature is applied first, then top-k, then top-p among what is left, then min-p. Tokens as probable as the last
    one that a filter keeps are kept too.

    Args:
        logits: (vocab,) float32.
        params: The request's.
        draw: Uniform in [0, 1).
    """
    probs = torch.softmax(logits / params.temperature, dim=-1)
    floor = _floor(probs, params)
    if floor > 0:
        probs = torch.where(probs >= floor, probs, 0.0)
    # Float64: in float32 the sum of 50,000 terms would be off by more than the rarest token's probability.
    cumulative = probs.cumsum(-1, dtype=torch.float64)
    return int(torch.searchsorted(cumulative, draw * cumulative[-1], right=True))


def _floor(probs: Tensor, params: SamplingParams) -> float:
    """The smallest probability that the filters keep; 0 keeps all."""
    floor = 0.0
    if 0 < params.top_k < len(probs):
        floor = float(probs.topk(params.top_k).values[-1])
    if params.top_p < 1:
        floor = max(floor, _nucleus_floor(probs, params.top_p, floor))
    if params.min_p > 0:
        floor = max(floor, params.min_p * float(probs.max()))
    return floor


def _nucleus_floor(probs: Tensor, top_p: float, floor: float) -> float:
    """The least probable token of the smallest set that holds `top_p` of all that is at least `floor`."""
    wanted = top_p * float(probs[probs >= floor].sum())
    for count in (min(NUCLEUS_GUESS, len(probs)), len(probs)):
        candidates = probs.topk(count).values
        inside = int((candidates.cumsum(-1) < wanted).sum())
        if inside < count:
            return float(candidates[inside])
    return 0.0
