"""w4: a long prompt among running streams."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any

from readahead_serving.bench.client import LoadRequest, Timing, user_message
from readahead_serving.bench.spread import percentile, spread
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.texts import prose
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload
from readahead_serving.bench.workloads.chat import chat_requests

_SETTLE_S = 1.0
"""What the streams' own first steps take at most; gaps before it count for nothing."""
_BEFORE_S = 2.0
"""How long the streams then run before the long prompt comes."""


async def _stream(bench: Bench, number: int, stop: asyncio.Event) -> list[Timing]:
    """One user's answers, one after another, for a model may end one early."""
    [request] = chat_requests(number + 1, bench.max_tokens)[number:]
    timings = [await bench.client.send(request)]
    while not stop.is_set():
        timings.append(await bench.client.send(request))
    return timings


async def _run(bench: Bench) -> Outcome:
    stop = asyncio.Event()
    began = time.monotonic()
    users = [asyncio.create_task(_stream(bench, number, stop)) for number in range(bench.concurrency)]
    await asyncio.sleep(_SETTLE_S + _BEFORE_S)
    long = await bench.client.send(LoadRequest(user_message(prose(bench.prefix_tokens, seed=4)), 1))
    stop.set()
    timings = [timing for user in await asyncio.gather(*users) for timing in user]
    first = long.sent_at + (long.text_at[0] if long.text_at else long.done_at)
    extra = moved(gaps_within(timings, began + _SETTLE_S, long.sent_at), gaps_within(timings, long.sent_at, first)) | {
        "long_ttft_ms": round(long.text_at[0] * 1000, 2) if long.text_at else None,
        "long_prompt_tokens": long.prompt_tokens,
        "long_error": long.error,
    }
    load = {"kind": "closed loop and one long prompt", "long_prompt_tokens": bench.prefix_tokens}
    return Outcome(timings, time.monotonic() - began, load, extra)


def moved(before: Sequence[float], during: Sequence[float]) -> dict[str, Any]:
    """What a long prompt does to the gaps of the streams beside it; nulls where none were seen.

    The step time is the median gap before; a stall is what the longest gap during takes beyond it.

    Args:
        before: Seconds of the gaps before the prompt.
        during: Those while it prefills.
    """
    p99_before, p99_during = (percentile(sorted(gaps), 99) if gaps else None for gaps in (before, during))
    stall = max(during) - percentile(sorted(before), 50) if before and during else None
    return {
        "tbt_before_ms": spread(before),
        "tbt_during_prefill_ms": spread(during),
        "tbt_p99_during_over_before": round(p99_during / p99_before, 2) if p99_before and p99_during else None,
        "longest_stall_beyond_step_ms": None if stall is None else round(stall * 1000, 2),
    }


def gaps_within(timings: Sequence[Timing], start: float, end: float) -> list[float]:
    """Seconds between two chunks of one stream, of all gaps that touch the time from `start` to `end`."""
    return [
        after - before
        for timing in timings
        for before, after in itertools.pairwise(timing.sent_at + at for at in timing.text_at)
        if after > start and before < end
    ]


LONG_PREFILL = Workload(
    name="w4",
    description="8 running streams of 400 tokens and one prompt of 8,000 tokens thrown in (the model's window takes "
    "8,192 with the answer); p99 of the streams' gaps before it and while it prefills, the longest stall beyond the "
    "step time (the median gap before), and its own TTFT",
    run=_run,
    max_tokens=400,
    concurrency=(8,),
    goal=Goal(ttft_ms=1000, tbt_ms=200),
    prefix_tokens=8370,
)
