"""chat: short questions with nothing in common."""

from __future__ import annotations

import itertools
import time

from readahead_serving.bench.client import LoadRequest, user_message
from readahead_serving.bench.load import closed_loop
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload

_WAVES = 4
"""Requests for each user, where the caller names no number."""
_FEWEST_REQUESTS = 8
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


def chat_requests(count: int, max_tokens: int) -> list[LoadRequest]:
    """Short questions; after 35 they come again."""
    prompts = itertools.cycle(f"{task} {topic}." for topic, task in itertools.product(_TOPICS, _TASKS))
    return [LoadRequest(user_message(prompt), max_tokens) for prompt in itertools.islice(prompts, count)]


async def _run(bench: Bench) -> Outcome:
    count = bench.requests or max(_FEWEST_REQUESTS, _WAVES * bench.concurrency)
    began = time.monotonic()
    timings = await closed_loop(bench.client, chat_requests(count, bench.max_tokens), bench.concurrency)
    return Outcome(timings, time.monotonic() - began, {"kind": "closed loop"})


CHAT = Workload(
    name="chat",
    description="short chats with different prompts, greedy, 64 tokens each, at 1, 4 and 16 at a time; "
    "TTFT, TBT, e2e, throughput",
    run=_run,
    max_tokens=64,
    concurrency=(1, 4, 16),
    goal=Goal(ttft_ms=1000, tbt_ms=150),
)
