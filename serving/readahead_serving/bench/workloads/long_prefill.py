"""w4: a long prompt among running streams."""

from __future__ import annotations

import asyncio
import itertools
import time

from readahead_serving.bench.client import LoadRequest, Timing, user_message
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.texts import prose
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload
from readahead_serving.bench.workloads.chat import chat_requests

_SETTLE_S = 2.0
"""How long the chats run before the long prompt comes."""


async def _chats(bench: Bench, number: int, stop: asyncio.Event) -> list[Timing]:
    [request] = chat_requests(number + 1, bench.max_tokens)[number:]
    timings = [await bench.client.send(request)]
    while not stop.is_set():
        timings.append(await bench.client.send(request))
    return timings


async def _run(bench: Bench) -> Outcome:
    stop = asyncio.Event()
    began = time.monotonic()
    users = [asyncio.create_task(_chats(bench, number, stop)) for number in range(bench.concurrency)]
    await asyncio.sleep(_SETTLE_S)
    long = await bench.client.send(LoadRequest(user_message(prose(bench.prefix_tokens, seed=4)), 1))
    stop.set()
    timings = [timing for user in await asyncio.gather(*users) for timing in user]
    during = longest_gap(timings, long.sent_at, long.sent_at + long.done_at)
    extra = {
        "max_tbt_before_ms": _ms(longest_gap(timings, began, long.sent_at)),
        "max_tbt_during_prefill_ms": _ms(during),
        "long_ttft_ms": _ms(long.text_at[0]) if long.text_at else None,
        "long_prompt_tokens": long.prompt_tokens,
        "long_error": long.error,
    }
    load = {"kind": "closed loop and one long prompt", "long_prompt_tokens": bench.prefix_tokens}
    return Outcome(timings, time.monotonic() - began, load, extra)


def longest_gap(timings: list[Timing], start: float, end: float) -> float:
    """Seconds of the longest gap between two chunks of one stream that touches the time from `start` to `end`."""
    longest = 0.0
    for timing in timings:
        times = [timing.sent_at + at for at in timing.text_at]
        for before, after in itertools.pairwise(times):
            if after > start and before < end:
                longest = max(longest, after - before)
    return longest


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


LONG_PREFILL = Workload(
    name="w4",
    description="4 running chats of 64 tokens and one prompt of 7,000 tokens thrown in; the chats' longest gap "
    "before it and while it prefills, and its own TTFT",
    run=_run,
    max_tokens=64,
    concurrency=(4,),
    goal=Goal(ttft_ms=1000, tbt_ms=200),
    prefix_tokens=7000,
)
