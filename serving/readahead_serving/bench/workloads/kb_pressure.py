"""w2: more knowledge bases than the cache holds."""

from __future__ import annotations

import random
import time

from readahead_serving.bench.hits import hit_report, shareable
from readahead_serving.bench.load import closed_loop
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.texts import prose
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload
from readahead_serving.bench.workloads.kb_questions import about

_BUDGET_TOKENS = 12_000
"""Of a server that doesn't tell its own."""
_PRESSURE = 2.0
"""The texts' tokens over the cache's."""
_SEED = 2


async def _run(bench: Bench) -> Outcome:
    budget = (await bench.probe.metrics()).get("kv_tokens_total") or _BUDGET_TOKENS
    bases = max(2, round(_PRESSURE * budget / bench.prefix_tokens))
    texts = [prose(bench.prefix_tokens, seed=10_000 + number) for number in range(bases)]
    dice = random.Random(_SEED)
    count = bench.requests or 3 * bases
    weights = [1 / (rank + 1) for rank in range(bases)]
    chosen = dice.choices(range(bases), weights, k=count)
    requests = [about(texts[base], number, bench.max_tokens) for number, base in enumerate(chosen)]
    began = time.monotonic()
    timings = await closed_loop(bench.client, requests, bench.concurrency)
    load = {
        "kind": "closed loop",
        "knowledge_bases": bases,
        "prefix_tokens": bench.prefix_tokens,
        "pressure": _PRESSURE,
        "access": "Zipf, exponent 1",
    }
    return Outcome(timings, time.monotonic() - began, load, hit_report(timings, shareable(requests)))


KB_PRESSURE = Workload(
    name="w2",
    description="more knowledge bases than fit: texts of 1,000 tokens that sum to twice the KV budget, asked by Zipf, "
    "16 tokens out, at 4 at a time; p99 TTFT and cached tokens beside what an endless cache could give",
    run=_run,
    max_tokens=16,
    concurrency=(4,),
    goal=Goal(ttft_ms=2000, tbt_ms=200),
    prefix_tokens=1000,
    server={"kv_cache_bytes": 256 << 20},
)
