"""What `measure_gateway_lag.py` looks at, and how it is told."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

Times = Sequence[tuple[float, float]]
Span = tuple[float, float]
"""From when to when, by the monotonic clock."""


def time_steps(steps: list[tuple[float, float]]) -> None:
    """Notes from now on when a step of an event loop ended that took a millisecond of its thread, and how much."""
    step = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        step(handle)
        if (took := time.thread_time() - began) >= 0.001:
            steps.append((time.monotonic(), took))

    mock.patch.object(asyncio.Handle, "_run", timed).start()


def figures(lags: Times, steps: Times, latencies: Times, begun: float, end: float) -> dict[str, dict[str, float]]:
    return {
        "step_cpu_ms": quantiles([took for at, took in steps if begun <= at < end]),
        "loop_lag_ms": quantiles([lag for at, lag in lags if begun <= at < end]),
        "chat_ms": quantiles([took for at, took in latencies if begun <= at < end]),
    }


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {"count": 0}
    shares = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
    told = {name: round(1000 * float(np.percentile(seconds, share)), 1) for name, share in shares.items()}
    return {"count": len(seconds), **told}


def as_text(report: dict[str, Any]) -> str:
    lines = [f"{name}: {value}" for name, value in report.items() if name != "phases"]
    for phase, told in report["phases"].items():
        for figure, values in told.items():
            lines.append(f"{phase:10} {figure:12} " + "  ".join(f"{k} {v:g}" for k, v in values.items()))
    return "\n".join(lines)


@asynccontextmanager
async def watched_memory() -> AsyncIterator[dict[str, int]]:
    """The largest sum of resident bytes: of this process, and of the processes of ingestion below it."""
    largest = {"gateway": 0, "ingestion": 0}

    def look() -> None:
        largest["gateway"] = max(largest["gateway"], _resident(os.getpid()))
        below = [pid for pid in _children(os.getpid()) if b"readahead_retrieval" in _command(pid)]
        largest["ingestion"] = max(largest["ingestion"], sum(map(_resident, below)))

    async def watch() -> None:
        while True:
            await asyncio.to_thread(look)
            await asyncio.sleep(0.25)

    watching = asyncio.create_task(watch())
    try:
        yield largest
    finally:
        watching.cancel()


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return found
