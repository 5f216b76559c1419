"""Keeps the LLM server running: starts it, waits for it, starts it again when it dies, stops it for good."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

from readahead_platform.bounded_log import BoundedLog
from readahead_platform.errors import StartError
from readahead_platform.settings import environment_of
from readahead_serving.settings import ServingSettings

logger = logging.getLogger(__name__)
T = TypeVar("T")

_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_PROBE_INTERVAL_S = 0.1
_PROBE_TIMEOUT_S = 2.0
_DRAIN_S = 2.0
"""The gateway ends its own requests first, so the server has little left to finish."""
_GRACE_S = 8.0
"""From SIGTERM to SIGKILL."""


class LlmSupervisor:
    """Owns the LLM server's process group. Use `supervised`, which stops it on every way out."""

    def __init__(self, settings: ServingSettings, log: BoundedLog, start_timeout_s: float) -> None:
        self.base_url = f"http://127.0.0.1:{settings.port}"
        self.api_key = secrets.token_urlsafe(32)
        self.restarts = 0
        self._log = log
        self._start_timeout_s = start_timeout_s
        self._command = _command(settings.port)
        child = settings.model_copy(update={"host": "127.0.0.1", "api_key": self.api_key, "drain_s": _DRAIN_S})
        self._environment = _environment(child)
        self._process: asyncio.subprocess.Process | None = None
        self._spawned = asyncio.Event()
        self._ready = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the LLM server's process; None while there is none."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Returns once the server's process is there; it is kept running until `stop`."""
        self._running = asyncio.create_task(self._run())
        await self.or_failed(self._spawned.wait())

    async def stop(self) -> None:
        """Returns once the process is gone."""
        assert self._running is not None
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError, StartError):
            await self._running

    async def _run(self) -> None:
        """Starts the server and keeps it running until cancelled.

        Raises:
            StartError: It has never become ready. Once it has, it is started again for ever, ever more slowly.
        """
        backoff_s = _FIRST_BACKOFF_S
        while True:
            became_ready = await self._run_once()
            if not self._ready.is_set():
                raise StartError(f"The LLM server did not start: {self._log.last_line() or 'it said nothing'}")
            backoff_s = _FIRST_BACKOFF_S if became_ready else min(2 * backoff_s, _LONGEST_BACKOFF_S)
            self.restarts += 1
            logger.warning("The LLM server ended and is started again: %s", self._log.last_line() or "it said nothing")
            await asyncio.sleep(backoff_s)

    async def ready(self) -> None:
        """Returns once the server has been ready for the first time.

        Raises:
            StartError: It does not become ready.
        """
        await self.or_failed(self._ready.wait())

    async def or_failed(self, work: Coroutine[Any, Any, T]) -> T:
        """Does `work`, which is cancelled when supervision itself ends: nothing goes on over a server nobody restarts.

        Raises:
            StartError: The server has never become ready.
        """
        assert self._running is not None
        doing = asyncio.create_task(work)
        try:
            await asyncio.wait([self._running, doing], return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                self._running.result()
                raise StartError("Nobody watches over the LLM server any more.")
            return doing.result()
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)

    async def _run_once(self) -> bool:
        """One life of the server; whether it was ready in it."""
        try:
            self._process = process = await self._spawn()
        except OSError as error:  # no memory or no processes are left: later there may be
            self._log.write(f"The LLM server cannot be started: {error}\n".encode())
            return False
        self._spawned.set()
        assert process.stdout is not None
        logging = asyncio.create_task(self._log.fill_from(process.stdout))
        try:
            became_ready = await self._wait_until_ready(process)
            if became_ready:
                self._ready.set()
                await process.wait()
            return became_ready
        finally:
            self._process = None
            await _stop(process)
            await logging

    async def _spawn(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )

    async def _wait_until_ready(self, process: asyncio.subprocess.Process) -> bool:
        """False when the process ends, or its time is up, before it is ready."""
        probing = asyncio.create_task(_probe(f"{self.base_url}/health/ready"))
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait([probing, ended], timeout=self._start_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return probing.done() and not ended.done()
        finally:
            probing.cancel()
            ended.cancel()


@contextlib.asynccontextmanager
async def supervised(settings: ServingSettings, log_path: Path, start_timeout_s: float) -> AsyncIterator[LlmSupervisor]:
    """An LLM server that is starting when the block begins and gone when it ends: see `LlmSupervisor.ready`."""
    supervisor = LlmSupervisor(settings, BoundedLog(log_path), start_timeout_s)
    await supervisor.start()
    try:
        yield supervisor
    finally:
        await supervisor.stop()


def _command(port: int) -> Sequence[str]:
    """The child ends itself when this process dies without a word: see `die_with_parent`."""
    return [sys.executable, "-m", "readahead_platform.cli", "serve", "--port", str(port), "--parent", str(os.getpid())]


def _environment(settings: ServingSettings) -> dict[str, str]:
    """Ours, and the server's settings as they are in force: variables outrank the file that the child reads too."""
    return {**os.environ, **environment_of(settings, "serving"), "PYTHONUNBUFFERED": "1"}


async def _probe(url: str) -> None:
    """Returns when `url` answers 200."""
    async with httpx.AsyncClient(timeout=_PROBE_TIMEOUT_S) as http:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await http.get(url)).status_code == 200:
                    return
            await asyncio.sleep(_PROBE_INTERVAL_S)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Asks the server, which ends its engine itself; then forces whatever is left of its group."""
    if process.returncode is None:
        process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_S)
    with contextlib.suppress(ProcessLookupError):  # the group has the leader's id, and lives as long as a member does
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
