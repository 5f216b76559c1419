"""Runs a workload and reports it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from readahead_serving.bench.client import LoadClient, Target, first_model
from readahead_serving.bench.hardware import describe_hardware
from readahead_serving.bench.load import closed_loop
from readahead_serving.bench.output import print_json, print_lines, print_tables
from readahead_serving.bench.own_server import own_server
from readahead_serving.bench.probe import ServerProbe
from readahead_serving.bench.report import as_tables, ratios
from readahead_serving.bench.summary import summarise
from readahead_serving.bench.workloads import WORKLOADS, Bench, Workload
from readahead_serving.bench.workloads.chat import chat_requests
from readahead_serving.errors import BenchFailed
from readahead_serving.settings import ServingSettings

_WARM_UP_TOKENS = 4
"""Of as many chats as there will be users, before the clock runs: servers compile or allocate for each batch size."""
NO_OTHERS: Mapping[str, str] = MappingProxyType({})


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
    prefix_tokens: int | None = None
    """Tokens of the shared or long texts, where the workload has some."""
    peers: tuple[str, ...] = ()
    """Other servers that get the same load by turns; each is asked for its first model."""


def run_bench(
    workload: str,
    options: BenchOptions,
    settings: ServingSettings,
    *,
    as_json: bool,
    others: Mapping[str, str] = NO_OTHERS,
) -> None:
    """Runs a workload by name and prints its report; "list" prints the names.

    Args:
        workload: A key of WORKLOADS, or "list".
        options: How to run it.
        settings: Of the server that is started when `options` names none.
        as_json: Print one JSON object instead of tables.
        others: What else "list" tells: names and descriptions of workloads that are not a server's.

    Raises:
        BenchFailed: No such workload, no server, or not one request finished.
    """
    if workload == "list":
        _print_list({one.name: one.description for one in WORKLOADS.values()} | dict(others), as_json=as_json)
        return
    if workload not in WORKLOADS:
        raise BenchFailed(f"No workload {workload!r}; there is {', '.join((*WORKLOADS, *others))}.")
    report = asyncio.run(measure(WORKLOADS[workload], options, settings))
    messages = report["metrics"]["error_messages"]
    if not report["metrics"]["requests_per_s"]:
        raise BenchFailed(f"Not one request finished: {', '.join(messages)}.")
    if as_json:
        print_json(report)
    else:
        print_tables(as_tables(report), [f"{count} failed: {text}" for text, count in messages.items()])


def _print_list(listed: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json({"workloads": dict(listed)})
    else:
        print_lines(f"{name}: {text}" for name, text in listed.items())


async def measure(workload: Workload, options: BenchOptions, settings: ServingSettings) -> dict[str, Any]:
    """The report of a workload. `load` and `metrics` are those of the highest level; `runs` holds every level.

    Raises:
        BenchFailed: A server doesn't answer, or the workload needs one of our own and another is named.
    """
    if workload.needs_own_server and (options.url is not None or options.peers):
        raise BenchFailed(f"{workload.name} starts and kills its own server: leave --url and --peer out.")
    settings = settings.model_copy(update=dict(workload.server))
    async with _server(workload, options, settings) as url, contextlib.AsyncExitStack() as stack:
        targets = [Target(url, options.model or await _first_model(workload, url, options.api_key), options.api_key)]
        targets += [Target(peer, await first_model(peer, ""), "") for peer in map(_with_v1, options.peers)]
        benches = [(await stack.enter_async_context(LoadClient(target)), ServerProbe(target)) for target in targets]
        runs: list[list[dict[str, Any]]] = [[] for _ in targets]
        for level in options.concurrency or workload.concurrency:
            for (client, probe), levels in zip(benches, runs, strict=True):
                levels.append(await _level(workload, options, settings, client, probe, level))
    report = {
        "workload": workload.name,
        "server": {"url": url, "model": targets[0].model, "own": options.url is None},
        "hardware": describe_hardware(),
        "command": shlex.join("KEY" if options.api_key and options.api_key in word else word for word in sys.argv),
        **runs[0][-1],
        "runs": runs[0],
    }
    if options.peers:
        report["peers"] = [
            {
                "server": {"url": target.url, "model": target.model, "own": False},
                **levels[-1],
                "runs": levels,
                "ratios": [
                    ratios(ours["metrics"], theirs["metrics"]) for ours, theirs in zip(runs[0], levels, strict=True)
                ],
            }
            for target, levels in zip(targets[1:], runs[1:], strict=True)
        ]
    return report


async def _level(
    workload: Workload,
    options: BenchOptions,
    settings: ServingSettings,
    client: LoadClient,
    probe: ServerProbe,
    concurrency: int,
) -> dict[str, Any]:
    bench = Bench(
        client=client,
        probe=probe,
        settings=settings,
        concurrency=concurrency,
        requests=options.requests,
        max_tokens=options.max_tokens or workload.max_tokens,
        prefix_tokens=options.prefix_tokens or workload.prefix_tokens,
        goal=workload.goal,
    )
    if not workload.needs_own_server:
        await closed_loop(client, chat_requests(concurrency, _WARM_UP_TOKENS), concurrency)
    outcome = await workload.run(bench)
    load = outcome.load | {
        "concurrency": concurrency,
        "requests": len(outcome.timings),
        "max_tokens": bench.max_tokens,
        "temperature": 0,
        "goal": {"ttft_ms": bench.goal.ttft_ms, "tbt_ms": bench.goal.tbt_ms},
    }
    return {"load": load, "metrics": summarise(outcome.timings, outcome.wall_s, bench.goal) | outcome.extra}


@contextlib.asynccontextmanager
async def _server(workload: Workload, options: BenchOptions, settings: ServingSettings) -> AsyncIterator[str]:
    if workload.needs_own_server:
        yield ""
    elif options.url is None:
        with tempfile.TemporaryDirectory(prefix="readahead-bench-") as packs:
            async with own_server(settings.model_copy(update={"packs_dir": Path(packs)})) as server:
                yield server.url
    else:
        yield _with_v1(options.url)


async def _first_model(workload: Workload, url: str, api_key: str) -> str:
    return "" if workload.needs_own_server else await first_model(url, api_key)


def _with_v1(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1") + "/v1"
