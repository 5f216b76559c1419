"""Measures of one question, and how sure their means are. Pure functions over any hashable ids."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np


def recall_at_k(ranking: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """The share of the relevant ids among the first `k` different ids."""
    assert relevant, "recall is undefined without a relevant id"
    return len(set(_distinct(ranking)[:k]) & set(relevant)) / len(set(relevant))


def hit_at_k(ranking: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """1 if any relevant id is among the first `k` different ids, else 0."""
    return float(not set(_distinct(ranking)[:k]).isdisjoint(relevant))


def reciprocal_rank(ranking: Sequence[Hashable], relevant: Collection[Hashable]) -> float:
    """1 over the rank of the first relevant id; 0 without one. Its mean is the MRR."""
    ranks = (rank for rank, found in enumerate(_distinct(ranking), start=1) if found in relevant)
    return 1 / next(ranks, math.inf)


def ndcg_at_k(ranking: Sequence[Hashable], gains: Mapping[Hashable, float], k: int = 10) -> float:
    """Normalised discounted cumulative gain with linear gains (Järvelin and Kekäläinen 2002), as trec_eval has it."""
    ideal = _dcg(sorted(gains.values(), reverse=True)[:k])
    assert ideal > 0, "nDCG is undefined without a relevant id"
    return _dcg([gains.get(found, 0.0) for found in _distinct(ranking)[:k]]) / ideal


def answer_coverage(text: str, answers: Sequence[str]) -> float:
    """The share of the answer strings that stand in `text` as whole words, after normalisation."""
    assert answers, "coverage is undefined without an answer"
    given = f" {normalize(text)} "
    return sum(_stands_in(normalize(answer), given) for answer in answers) / len(answers)


def normalize(text: str) -> str:
    """NFKC, case folded, thousands unseparated, punctuation as spaces (a decimal point and a minus stay)."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    joined = re.sub(r"(?<=\d)[,'](?=\d{3}(?!\d))", "", folded)
    spaced = re.sub(r"(?<!\d)\.|\.(?!\d)|[^\w\s.%°-]|-(?!\d)|(?<=\w)-", " ", joined)
    return " ".join(spaced.split())


def bootstrap_interval(
    values: Sequence[float], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 7
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean (Efron 1979), the same for the same seed."""
    assert values, "an interval is undefined without a value"
    data = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(data), size=(resamples, len(data)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(data[picks].mean(axis=1), [tail, 1 - tail])
    return float(low), float(high)


def _distinct(ranking: Sequence[Hashable]) -> list[Hashable]:
    """Several passages of one page count once, at the best of their ranks."""
    return list(dict.fromkeys(ranking))


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _stands_in(answer: str, given: str) -> bool:
    """Korean particles follow a word without a space, so a word may go on in Hangul but not in Latin or digits."""
    return re.search(rf"(?<![\w.-]){re.escape(answer)}(?![a-z0-9])", given) is not None
