"""w5: twice as many requests as the server can serve."""

from __future__ import annotations

import math
import time

from readahead_serving.bench.load import closed_loop, open_loop
from readahead_serving.bench.spread import spread
from readahead_serving.bench.workloads.base import Bench, Goal, Outcome, Workload
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
    rate = _OVERLOAD * capacity
    count = bench.requests or max(_FEWEST, math.ceil(_LASTS_S * rate))
    began = time.monotonic()
    requests = chat_requests(count, bench.max_tokens)
    timings = await open_loop(bench.client, requests, rate, _SEED)
    refused = [timing for timing in timings if timing.error is not None and timing.error.startswith("HTTP ")]
    extra = {
        "capacity_rps": round(capacity, 3),
        "refused": len(refused),
        "refusal_ms": spread([timing.done_at for timing in refused]),
    }
    load = {"kind": "open loop, Poisson", "rate_rps": round(rate, 3), "seed": _SEED}
    return Outcome(timings, time.monotonic() - began, load, extra)


OVERLOAD = Workload(
    name="w5",
    description="overload: chats of 32 tokens arrive as a Poisson process at twice the rate that 16 users get through, "
    "for 20 s and 100 of them at least; goodput, refusals and how fast they come, TTFT of those let in",
    run=_run,
    max_tokens=32,
    concurrency=(16,),
    goal=Goal(ttft_ms=3000, tbt_ms=300),
    server={"max_running": 16, "max_waiting": 64, "max_queue_seconds": 3.0},
)
