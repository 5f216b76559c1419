"""Runs a workload and reports it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shlex
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from readahead_serving.bench.client import LoadClient, Target, first_model
from readahead_serving.bench.hardware import describe_hardware
from readahead_serving.bench.own_server import own_server
from readahead_serving.bench.report import as_table, summarise
from readahead_serving.bench.workloads import WORKLOADS, Workload
from readahead_serving.errors import BenchFailed
from readahead_serving.settings import ServingSettings

_WAVES = 4
"""Requests of a level for each of its users, where the caller names no number."""
_FEWEST_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How a workload is run; None takes the workload's own."""

    url: str | None = None
    """An OpenAI-compatible server, with or without /v1; None starts one of our own."""
    model: str | None = None
    api_key: str = ""
    concurrency: tuple[int, ...] | None = None
    requests: int | None = None
    """At each level of concurrency."""
    max_tokens: int | None = None


def run_bench(workload: str, options: BenchOptions, settings: ServingSettings, *, as_json: bool) -> None:
    """Runs a workload by name and prints its report; "list" prints the names.

    Args:
        workload: A key of WORKLOADS, or "list".
        options: How to run it.
        settings: Of the server that is started when `options` names none.
        as_json: Print one JSON object instead of a table.

    Raises:
        BenchFailed: No such workload, no server, or not one request finished.
    """
    console = Console(soft_wrap=as_json, highlight=False)
    if workload == "list":
        listed = {one.name: one.description for one in WORKLOADS.values()}
        lines = [json.dumps({"workloads": listed})] if as_json else [f"{name}: {text}" for name, text in listed.items()]
        console.print("\n".join(lines), markup=False)
        return
    if workload not in WORKLOADS:
        raise BenchFailed(f"No workload {workload!r}; there is {', '.join(WORKLOADS)}.")
    report = asyncio.run(measure(WORKLOADS[workload], options, settings))
    messages = report["metrics"]["error_messages"]
    if not report["metrics"]["requests_per_s"]:
        raise BenchFailed(f"Not one request finished: {', '.join(messages)}.")
    if as_json:
        console.print(json.dumps(report), markup=False)
    else:
        console.print(as_table(report), *(f"{count} failed: {text}" for text, count in messages.items()), sep="\n")


async def measure(workload: Workload, options: BenchOptions, settings: ServingSettings) -> dict[str, Any]:
    """The report of a workload. `load` and `metrics` are those of the highest level; `runs` holds every level.

    Raises:
        BenchFailed: No server answers.
    """
    async with _server(options, settings) as url, contextlib.AsyncExitStack() as stack:
        model = options.model or await first_model(url, options.api_key)
        client = await stack.enter_async_context(LoadClient(Target(url, model, options.api_key)))
        max_tokens = options.max_tokens or workload.max_tokens
        await client.run(workload.prompts[-1:], max_tokens=max_tokens, concurrency=1)  # warm-up, not counted
        levels = options.concurrency or workload.concurrency
        runs = [await _level(client, workload, level, max_tokens, options.requests) for level in levels]
    return {
        "workload": workload.name,
        "server": {"url": url, "model": model, "own": options.url is None},
        "hardware": describe_hardware(),
        "command": shlex.join("KEY" if options.api_key and options.api_key in word else word for word in sys.argv),
        **runs[-1],
        "runs": runs,
    }


async def _level(
    client: LoadClient, workload: Workload, concurrency: int, max_tokens: int, requests: int | None
) -> dict[str, Any]:
    count = requests or max(_FEWEST_REQUESTS, _WAVES * concurrency)
    prompts = list(itertools.islice(itertools.cycle(workload.prompts), count))
    started = time.monotonic()
    timings = await client.run(prompts, max_tokens=max_tokens, concurrency=concurrency)
    metrics = summarise(timings, time.monotonic() - started, workload.goal)
    load = {
        "kind": "closed loop",
        "concurrency": concurrency,
        "requests": count,
        "max_tokens": max_tokens,
        "temperature": 0,
        "goal": {"ttft_ms": workload.goal.ttft_ms, "tbt_ms": workload.goal.tbt_ms},
    }
    return {"load": load, "metrics": metrics}


@contextlib.asynccontextmanager
async def _server(options: BenchOptions, settings: ServingSettings) -> AsyncIterator[str]:
    if options.url is None:
        async with own_server(settings) as url:
            yield url
    else:
        yield options.url.rstrip("/").removesuffix("/v1") + "/v1"
