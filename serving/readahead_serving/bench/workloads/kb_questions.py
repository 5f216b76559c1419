"""w1: many questions about one knowledge base, which is in the cache."""

from __future__ import annotations

import time

from readahead_serving.bench.client import LoadRequest
from readahead_serving.bench.hits import hit_report, shareable
from readahead_serving.bench.load import closed_loop
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.texts import prose, question
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload

COLD_SEED = 900_000


def about(knowledge: str, number: int, max_tokens: int) -> LoadRequest:
    """A question about a text that stands in the system message."""
    messages = [{"role": "system", "content": knowledge}, {"role": "user", "content": question(number)}]
    return LoadRequest(messages, max_tokens)


async def _run(bench: Bench) -> Outcome:
    knowledge = prose(bench.prefix_tokens, seed=1)
    pack = await bench.probe.build_pack(knowledge)
    known = about(knowledge, COLD_SEED, bench.max_tokens)
    cold = await bench.client.send(about(prose(bench.prefix_tokens, COLD_SEED + bench.concurrency), 0, 1))
    await _warm(bench, known, everywhere=pack is None)
    count = bench.requests or max(8, 2 * bench.concurrency)
    requests = [about(knowledge, 1000 * bench.concurrency + number, bench.max_tokens) for number in range(count)]
    before = await bench.probe.metrics()
    began = time.monotonic()
    timings = await closed_loop(bench.client, requests, bench.concurrency)
    wall_s = time.monotonic() - began
    after = await bench.probe.metrics()
    extra = hit_report(timings, shareable(requests, [known])) | {"cold_ttft_ms": _milliseconds(cold.text_at)}
    if before and after:
        extra["engine_computed_tokens"] = after["prompt_tokens_computed"] - before["prompt_tokens_computed"]
    load = {"kind": "closed loop", "prefix_tokens": bench.prefix_tokens, "held_as": "pack" if pack else "prefix cache"}
    return Outcome(timings, wall_s, load, extra)


async def _warm(bench: Bench, known: LoadRequest, *, everywhere: bool) -> None:
    """Fills a prefix cache where there are no packs: first alone, then in each of the places that a server may have
    for requests at a time, as some keep a cache for each place."""
    await bench.client.send(known)
    if everywhere:
        await closed_loop(bench.client, [known] * bench.concurrency, bench.concurrency)


def _milliseconds(text_at: list[float]) -> float | None:
    return round(text_at[0] * 1000, 2) if text_at else None


KB_QUESTIONS = Workload(
    name="w1",
    description="knowledge-base questions: one text of 4,000 tokens in the cache (a pack on our server, else the "
    "prefix cache), distinct questions of about 25 tokens, 32 tokens out, at 1, 4 and 16 at a time; cold TTFT beside "
    "TTFT, TBT, throughput, cached and computed tokens",
    run=_run,
    max_tokens=32,
    concurrency=(1, 4, 16),
    goal=Goal(ttft_ms=1000, tbt_ms=200),
    prefix_tokens=4000,
)
