"""The loads that can be run by name."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """What a request must keep to count as good."""

    ttft_ms: float
    tbt_ms: float
    """The request's own 95th percentile of gaps must stay below it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of load, at one or more levels of concurrency."""

    name: str
    description: str
    prompts: Sequence[str]
    max_tokens: int
    concurrency: tuple[int, ...]
    goal: Goal


_TASKS = (
    "Explain to a new colleague, in a few sentences, how to plan",
    "List three risks, with a short reason for each, of",
    "Write a friendly note to the team about",
    "Compare two ways to begin with",
    "Tell a short story that has to do with",
)
_TOPICS = (
    "a garden on a flat roof",
    "the move to a smaller office",
    "a library for a small town",
    "a bicycle tour along a river",
    "the repair of an old radio",
    "a cooking course for beginners",
    "a winter market",
)

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            name="chat",
            description="short chats with different prompts, greedy, 64 tokens each, at 1, 4 and 16 at a time",
            prompts=[f"{task} {topic}." for topic, task in itertools.product(_TOPICS, _TASKS)],
            max_tokens=64,
            concurrency=(1, 4, 16),
            goal=Goal(ttft_ms=1000, tbt_ms=150),
        ),
    )
}
