"""pack-restart: what a knowledge base in the cache is worth after the machine went down."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from readahead_serving.bench.client import LoadClient, Target, Timing, first_model
from readahead_serving.bench.own_server import own_server
from readahead_serving.bench.probe import ServerProbe
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.texts import prose
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload
from readahead_serving.bench.workloads.chat import chat_requests
from readahead_serving.bench.workloads.kb_questions import COLD_SEED, about
from readahead_serving.errors import BenchFailed
from readahead_serving.settings import ServingSettings


async def _run(bench: Bench) -> Outcome:
    knowledge = prose(bench.prefix_tokens, seed=1)
    with tempfile.TemporaryDirectory(prefix="readahead-bench-") as folder:
        settings = bench.settings.model_copy(update={"packs_dir": Path(folder)})
        cold, before = await _first_life(settings, knowledge, bench)
        restarted = time.monotonic()
        after, extra = await _second_life(settings, knowledge, bench)
    extra |= {
        "cold_ttft_ms": _ms(cold),
        "before_kill_ttft_ms": statistics.median(map(_ms, before)),
        "after_restart_ttft_ms": _ms(after[0]),
        "restart_to_first_answer_s": round(after[0].sent_at + after[0].done_at - restarted, 2),
        "cached_tokens_of_first": after[0].cached_tokens,
        "prompt_tokens_of_first": after[0].prompt_tokens,
    }
    wall_s = sum(timing.done_at for timing in after)
    return Outcome(after, wall_s, {"kind": "one after another, kill -9 between"}, extra)


async def _first_life(settings: ServingSettings, knowledge: str, bench: Bench) -> tuple[Timing, list[Timing]]:
    async with own_server(settings) as server:
        client, probe = await _connect(server.url)
        async with client:
            cold = await client.send(about(prose(bench.prefix_tokens, COLD_SEED), 0, bench.max_tokens))
            if await probe.build_pack(knowledge) is None:
                raise BenchFailed("This server has no packs.")
            before = [await client.send(about(knowledge, 1 + n, bench.max_tokens)) for n in range(_questions(bench))]
        server.process.kill()
        await server.process.wait()
    return cold, before


async def _second_life(
    settings: ServingSettings, knowledge: str, bench: Bench
) -> tuple[list[Timing], dict[str, object]]:
    async with own_server(settings) as server:
        client, probe = await _connect(server.url)
        async with client:
            chat = await client.send(chat_requests(1, 1)[0])
            before = (await probe.idle_metrics())["prompt_tokens_computed"]
            asked = (about(knowledge, 1000 + n, bench.max_tokens) for n in range(_questions(bench)))
            timings = [await client.send(request) for request in asked]
        computed = (await probe.idle_metrics())["prompt_tokens_computed"] - before
    return timings, {"first_chat_ttft_ms": _ms(chat), "engine_computed_tokens": int(computed)}


def _questions(bench: Bench) -> int:
    return bench.requests or 4


async def _connect(url: str) -> tuple[LoadClient, ServerProbe]:
    target = Target(url, await first_model(url, ""), "")
    return LoadClient(target), ServerProbe(target)


def _ms(timing: Timing) -> float:
    if not timing.text_at:
        raise BenchFailed(f"A request gave no text: {timing.error or 'no error was told'}")
    return round(timing.text_at[0] * 1000, 2)


PACK_RESTART = Workload(
    name="pack-restart",
    description="a pack of 4,000 tokens, built, asked, the server killed with SIGKILL and started again, a short "
    "chat (a process's first request costs more than its tokens), the pack asked again; TTFT cold, before (the "
    "median), of the chat and after, cached tokens, and the tokens that the engine computed for the pack's questions "
    "in its second life",
    run=_run,
    max_tokens=16,
    concurrency=(1,),
    goal=Goal(ttft_ms=1000, tbt_ms=200),
    prefix_tokens=4000,
    needs_own_server=True,
)
