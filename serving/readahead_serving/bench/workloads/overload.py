"""w5: twice as many requests as the server can serve."""

from __future__ import annotations

import math
import time

from readahead_serving.bench.load import closed_loop, open_loop
from readahead_serving.bench.spread import spread
from readahead_serving.bench.summary import Goal, summarise
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload
from readahead_serving.bench.workloads.chat import chat_requests

_SEED = 5
_OVERLOAD = 2.0
_PROBES = 16
_FEWEST = 100
_LASTS_S = 20.0
"""Seconds of arrivals, where the caller names no number: enough for the queue to fill and requests to be refused."""


async def _run(bench: Bench) -> Outcome:
    began = time.monotonic()
    await closed_loop(bench.client, chat_requests(_PROBES, bench.max_tokens), bench.concurrency)
    capacity = _PROBES / (time.monotonic() - began)
    peak = await _arrivals(bench, capacity)
    outcome = await _arrivals(bench, _OVERLOAD * capacity)
    refused = [timing for timing in outcome.timings if timing.error is not None and timing.error.startswith("HTTP ")]
    best, kept = (summarise(one.timings, one.wall_s, bench.goal)["goodput_rps"] for one in (peak, outcome))
    outcome.extra = {
        "capacity_rps": round(capacity, 3),
        "goodput_at_capacity_rps": best,
        "goodput_kept": round(kept / best, 3) if best else None,
        "refused": len(refused),
        "refusal_ms": spread([timing.done_at for timing in refused]),
    }
    return outcome


async def _arrivals(bench: Bench, rate: float) -> Outcome:
    """Chats that arrive at a rate, as many as the caller says, else for a while."""
    count = bench.requests or max(_FEWEST, math.ceil(_LASTS_S * rate))
    began = time.monotonic()
    timings = await open_loop(bench.client, chat_requests(count, bench.max_tokens), rate, _SEED)
    load = {"kind": "open loop, Poisson", "rate_rps": round(rate, 3), "seed": _SEED}
    return Outcome(timings, time.monotonic() - began, load)


OVERLOAD = Workload(
    name="w5",
    description="overload: chats of 32 tokens arrive as a Poisson process, first at the rate that 16 users get through "
    "and then at twice that, each for 20 s and 100 of them at least; goodput and what is kept of it, refusals and how "
    "fast they come, TTFT of those let in",
    run=_run,
    max_tokens=32,
    concurrency=(16,),
    goal=Goal(ttft_ms=3000, tbt_ms=300),
    # Whoever is let in last waits about this long before the first step, so it lies below the goal.
    server={"max_running": 16, "max_waiting": 64, "max_queue_seconds": 2.0},
)
