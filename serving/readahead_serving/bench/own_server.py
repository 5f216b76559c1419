"""Servers that a benchmark starts itself, on a free port of this machine, and stops afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from readahead_serving.errors import BenchFailed
from readahead_serving.settings import ServingSettings

_START_S = 600.0
_STOP_S = 15.0
_PROBE_S = 0.2
_LAST_WORDS_BYTES = 4000


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A running server that this benchmark started."""

    url: str
    """Up to /v1."""
    process: asyncio.subprocess.Process
    start_s: float
    """Seconds from starting the process until it was ready."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started."""

    command: Sequence[str]
    address: str
    """http://host:port, without /v1."""
    log: Path
    """Where its output goes: ours is the report's."""
    ready_path: str = "/health/ready"
    """Answers 200 once the server is ready."""
    environment: Mapping[str, str] | None = None
    """Beside the one we have."""


@contextlib.asynccontextmanager
async def own_server(settings: ServingSettings) -> AsyncIterator[OwnServer]:
    """Runs a server of these settings on a free port of this machine, without a key.

    Raises:
        BenchFailed: As `launched`.
    """
    here = settings.model_copy(update={"host": "127.0.0.1", "port": free_port(), "api_key": ""})
    command = [sys.executable, "-m", "readahead_serving", here.model_dump_json()]
    with tempfile.TemporaryDirectory(prefix="readahead-bench-") as folder:
        launch = Launch(command, f"http://{here.host}:{here.port}", Path(folder) / "server.log")
        async with launched(launch) as server:
            yield server


@contextlib.asynccontextmanager
async def launched(launch: Launch) -> AsyncIterator[OwnServer]:
    """Starts a server, waits until it is ready, and stops it at the end, however that comes.

    Raises:
        BenchFailed: It ended, or was not ready in time; with its last words.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    process = await _start(launch)
    try:
        async with asyncio.timeout(_START_S):
            await _until_ready(launch, process)
        yield OwnServer(f"{launch.address}/v1", process, round(loop.time() - began, 2))
    except TimeoutError as error:
        told = f"The server wasn't ready within {_START_S:.0f} s. {_last_words(launch.log)}"
        raise BenchFailed(told) from error
    finally:
        await _stop(process)


async def _start(launch: Launch) -> asyncio.subprocess.Process:
    environment = {**os.environ, **launch.environment} if launch.environment else None
    with launch.log.open("wb") as log:
        return await asyncio.create_subprocess_exec(
            *launch.command, stdout=log, stderr=asyncio.subprocess.STDOUT, env=environment
        )


async def _until_ready(launch: Launch, process: asyncio.subprocess.Process) -> None:
    async with httpx.AsyncClient(timeout=5.0) as http:
        while process.returncode is None:
            with contextlib.suppress(httpx.HTTPError):
                if (await http.get(f"{launch.address}{launch.ready_path}")).status_code == httpx.codes.OK:
                    return
            await asyncio.sleep(_PROBE_S)
    told = f"The server ended with code {process.returncode} before it was ready."
    raise BenchFailed(f"{told} {_last_words(launch.log)}")


def _last_words(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST_WORDS_BYTES))
        words = file.read().decode(errors="replace").strip()
    return f"Its last words:\n{words}" if words else "It said nothing."


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
