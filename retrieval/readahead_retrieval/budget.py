"""Fits evidence into a number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from readahead_retrieval.tokens import TokenCounter
from readahead_retrieval.types import Evidence


@dataclass(frozen=True, slots=True)
class PackedEvidence:
    kept: tuple[Evidence, ...]
    """In the order given."""
    dropped: tuple[Evidence, ...]
    tokens: int
    """Of what was kept."""


def _text(evidence: Evidence) -> str:
    return evidence.text


def pack_evidence(
    evidence: Sequence[Evidence],
    counter: TokenCounter,
    max_tokens: int,
    render: Callable[[Evidence], str] = _text,
) -> PackedEvidence:
    """Keeps the best that fit: a passage that does not fit is passed over, a smaller one behind it may still be kept.

    Args:
        evidence: Best first.
        render: The text that a passage becomes in the prompt; it is what is counted.
    """
    kept: list[Evidence] = []
    dropped: list[Evidence] = []
    tokens = 0
    for item in evidence:
        cost = counter.count(render(item))
        if tokens + cost <= max_tokens:
            kept.append(item)
            tokens += cost
        else:
            dropped.append(item)
    return PackedEvidence(tuple(kept), tuple(dropped), tokens)
