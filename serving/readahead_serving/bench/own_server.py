"""A server of our own for a benchmark that names none: started on a free port, stopped afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from readahead_serving.errors import BenchFailed
from readahead_serving.settings import ServingSettings

_START_S = 600.0
_STOP_S = 15.0
_PROBE_S = 0.2


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A running server of our own."""

    url: str
    """Up to /v1."""
    process: asyncio.subprocess.Process


@contextlib.asynccontextmanager
async def own_server(settings: ServingSettings) -> AsyncIterator[OwnServer]:
    """Runs a server of these settings on a free port of this machine, without a key.

    Raises:
        BenchFailed: It ended, or was not ready in time. What it said stands on standard error.
    """
    here = settings.model_copy(update={"host": "127.0.0.1", "port": free_port(), "api_key": ""})
    command = [sys.executable, "-m", "readahead_serving", here.model_dump_json()]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    address = f"http://{here.host}:{here.port}"
    try:
        async with asyncio.timeout(_START_S):
            await _until_ready(address, process)
        yield OwnServer(f"{address}/v1", process)
    except TimeoutError as error:
        raise BenchFailed(f"The server wasn't ready within {_START_S:.0f} s.") from error
    finally:
        await _stop(process)


async def _until_ready(address: str, process: asyncio.subprocess.Process) -> None:
    async with httpx.AsyncClient(timeout=5.0) as http:
        while process.returncode is None:
            with contextlib.suppress(httpx.HTTPError):
                if (await http.get(f"{address}/health/ready")).status_code == httpx.codes.OK:
                    return
            await asyncio.sleep(_PROBE_S)
    raise BenchFailed(f"The server ended with code {process.returncode} before it was ready.")


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
