"""w6: clients that hang up."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from readahead_serving.bench.client import LoadRequest, user_message
from readahead_serving.bench.load import closed_loop
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.texts import prose
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload

_SHARE = 0.3
_LATEST_S = 1.5
_SEED = 6


async def _run(bench: Bench) -> Outcome:
    dice = random.Random(_SEED)
    count = bench.requests or 200
    requests = [
        LoadRequest(user_message(prose(dice.randint(20, bench.prefix_tokens), seed=60_000 + n)), bench.max_tokens)
        for n in range(count)
    ]
    requests = [
        replace(one, cancel_after_s=dice.uniform(0.0, _LATEST_S)) if dice.random() < _SHARE else one for one in requests
    ]
    began = time.monotonic()
    timings = await closed_loop(bench.client, requests, bench.concurrency)
    wall_s = time.monotonic() - began
    extra: dict[str, object] = {"cancelled": sum(timing.was_cancelled for timing in timings)}
    if metrics := await bench.probe.idle_metrics():
        extra["leaked_tokens"] = int(metrics["kv_tokens_used"])
        extra["integrity_checks"] = int(metrics["integrity_checks"])
        extra["engine_aborted"] = int(metrics["engine_aborted"])
    load = {"kind": "closed loop", "cancelled_share": _SHARE, "latest_cancel_s": _LATEST_S, "seed": _SEED}
    return Outcome(timings, wall_s, load, extra)


CANCEL_STORM = Workload(
    name="w6",
    description="cancel storm: 200 chats of 20 to 600 tokens, 16 at a time, of which 30% hang up within 1.5 s, in "
    "queue, prefill and decode; KV tokens still held afterwards, which must be 0, and proofs of the KV's books",
    run=_run,
    max_tokens=48,
    concurrency=(16,),
    goal=Goal(ttft_ms=3000, tbt_ms=300),
    prefix_tokens=600,
)
