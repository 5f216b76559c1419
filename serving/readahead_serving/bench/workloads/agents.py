"""w3: agents whose history grows round by round."""

from __future__ import annotations

import asyncio
import itertools
import time

from readahead_serving.bench.client import LoadRequest, Timing
from readahead_serving.bench.hits import hit_report, shareable
from readahead_serving.bench.summary import Goal
from readahead_serving.bench.texts import prose, question
from readahead_serving.bench.workloads.base import Bench, Outcome, Workload

_ROUNDS = 4
_PAUSE_S = 0.3
"""How long a tool works between two rounds."""
_TOOL_TOKENS = 120


async def _agent(bench: Bench, number: int, rounds: int) -> list[tuple[LoadRequest, Timing]]:
    messages = [{"role": "system", "content": prose(bench.prefix_tokens, seed=3)}]
    done = []
    for turn in range(rounds):
        result = prose(_TOOL_TOKENS, seed=1000 * number + turn)
        messages = [*messages, {"role": "user", "content": f"{result} {question(100 * number + turn)}"}]
        request = LoadRequest(messages, bench.max_tokens)
        timing = await bench.client.send(request)
        done.append((request, timing))
        messages = [*messages, {"role": "assistant", "content": timing.text}]
        await asyncio.sleep(_PAUSE_S)
    return done


async def _run(bench: Bench) -> Outcome:
    rounds = max(1, bench.requests // bench.concurrency) if bench.requests else _ROUNDS
    began = time.monotonic()
    agents = await asyncio.gather(*(_agent(bench, number, rounds) for number in range(bench.concurrency)))
    wall_s = time.monotonic() - began
    done = sorted(itertools.chain.from_iterable(agents), key=lambda pair: pair[1].sent_at)
    timings = [timing for _, timing in done]
    load = {"kind": "agents", "rounds": rounds, "prefix_tokens": bench.prefix_tokens, "pause_s": _PAUSE_S}
    return Outcome(timings, wall_s, load, hit_report(timings, shareable([request for request, _ in done])))


AGENTS = Workload(
    name="w3",
    description="agents in rounds: a shared system message of 1,000 tokens, 4 rounds that each add a tool's result "
    "and an answer of 32 tokens to the history, with pauses, 4 agents at a time; TTFT and cached tokens",
    run=_run,
    max_tokens=32,
    concurrency=(4,),
    goal=Goal(ttft_ms=1500, tbt_ms=200),
    prefix_tokens=1000,
)
