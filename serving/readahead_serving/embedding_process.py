"""Starts the embedding process, talks to it, and restarts it when it dies, hangs or talks nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import msgspec

from readahead_serving.backends.watchdog import Watchdog
from readahead_serving.embedding_worker import LENGTH, Failed, Hello, Vectors, encode_frame
from readahead_serving.errors import EngineUnavailable, GenerationFailed, ModelLoadError
from readahead_serving.kernels.build import KernelChoice

logger = logging.getLogger(__name__)

_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_STOP_S = 5.0
_LOAD_S = 300.0
"""A process that has not loaded its model by then hangs."""
_RESTART_S = 5.0
"""What callers are told to wait for a restart: importing torch and reading the model."""
WORKER_MODULE = "readahead_serving.embedding_worker"
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",  # the model is on disk; nothing is asked of the network
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}


class EmbeddingProcess:
    """One process that holds one embedding model. `embed` is for one caller at a time.

    Args:
        path: The model's folder.
        threads: Compute threads of the process.
        dtype: "bfloat16" is used where the processor is fast at it.
        kernels: Which compiled kernels attend, where any do.
        kernels_dir: Where those are kept.
        stall_s: Seconds that a batch may take, after which the process is killed and started again. In the later half
            of them the process is not ready.
        module: What the process runs.
    """

    def __init__(
        self,
        path: Path,
        *,
        threads: int,
        dtype: Literal["bfloat16", "float32"],
        stall_s: float,
        kernels: KernelChoice = "off",
        kernels_dir: Path = Path(),
        module: str = WORKER_MODULE,
    ) -> None:
        folder = str(kernels_dir.expanduser())
        self._command = [sys.executable, "-m", module, str(path), str(threads), dtype, kernels, folder]
        self._stall_s = stall_s
        self._computing = False
        self._watchdog = Watchdog(stall_s / 2, stall_s, lambda: self._computing)
        self._process: asyncio.subprocess.Process | None = None
        self._hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._supervisor = asyncio.create_task(self._supervise(), name="embedding process")

    async def loaded(self) -> Hello:
        """Waits until the model is loaded for the first time.

        Raises:
            ModelLoadError: The folder holds no model that sentence-transformers reads.
        """
        return await asyncio.shield(self._hello)

    def is_ready(self) -> bool:
        return self._process is not None and not self._watchdog.is_stalled

    @property
    def pid(self) -> int | None:
        """The id of the process that answers; None while there is none."""
        return None if self._process is None else self._process.pid

    async def embed(self, batch: list[list[int]]) -> list[bytes]:
        """Vectors of a batch of token id sequences, each float32 little-endian bytes.

        Raises:
            EngineUnavailable: The process is starting, died or hung; it is being restarted.
            GenerationFailed: The model can't compute this batch.
        """
        process = self._process
        if process is None:
            raise EngineUnavailable("The embedding process is starting.", _RESTART_S)
        self._watchdog.heard()
        self._computing = True
        try:
            async with asyncio.timeout(self._stall_s):
                answer = await _exchange(process, batch)
        except TimeoutError as error:
            raise self._replace(process, f"has been silent for {self._stall_s:g} s") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise self._replace(process, "died") from error
        except msgspec.DecodeError as error:
            raise self._replace(process, "gave an answer that cannot be read") from error
        finally:
            self._computing = False
        if isinstance(answer, Failed):
            raise GenerationFailed(answer.message)
        size = 4 * self._hello.result().dimension
        if not isinstance(answer, Vectors) or len(answer.data) != size * len(batch):
            raise self._replace(process, "gave an answer to something else")
        return [answer.data[at : at + size] for at in range(0, len(answer.data), size)]

    def _replace(self, process: asyncio.subprocess.Process, what: str) -> EngineUnavailable:
        """Ends a process that is of no more use, whatever it is doing; its supervisor starts another."""
        self._process = None
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return EngineUnavailable(f"The embedding process {what}; it is being restarted.", _RESTART_S)

    async def close(self) -> None:
        """Ends the process."""
        self._supervisor.cancel()
        await asyncio.gather(self._supervisor, return_exceptions=True)
        if not self._hello.done():
            self._hello.cancel()

    async def _supervise(self) -> None:
        backoff = _FIRST_BACKOFF_S
        while True:
            if await self._live():
                backoff = _FIRST_BACKOFF_S
            if self._hello.done() and self._hello.exception() is not None:
                return
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF_S)

    async def _live(self) -> bool:
        """One life of the process; whether it had loaded its model in it."""
        try:
            async with self._spawned() as process:
                if not await self._greeted(process):
                    return False
                self._process = process
                await process.wait()
                self._process = None
                logger.warning("The embedding process ended with code %s; restarting it", process.returncode)
                return True
        except OSError as error:  # no memory for a process: later there may be
            logger.warning("The embedding process cannot be started: %s", error)
            if not self._hello.done():
                self._hello.set_exception(ModelLoadError(f"The embedding process cannot be started: {error}"))
            return False

    async def _greeted(self, process: asyncio.subprocess.Process) -> bool:
        """Whether the process has loaded its model. A model that has never loaded won't load the next time either."""
        try:
            async with asyncio.timeout(_LOAD_S):
                first = await _read(process)
        except (asyncio.IncompleteReadError, msgspec.DecodeError):
            first = Failed(message="the embedding process died while it loaded the model")
        except TimeoutError:
            first = Failed(message=f"the embedding process has not loaded the model in {_LOAD_S:g} s")
        if isinstance(first, Hello):
            if not self._hello.done():
                self._hello.set_result(first)
            return True
        if not self._hello.done():
            message = first.message if isinstance(first, Failed) else "unexpected answer"
            self._hello.set_exception(ModelLoadError(f"The embedding model can't be loaded: {message}"))
        return False

    @contextlib.asynccontextmanager
    async def _spawned(self) -> AsyncIterator[asyncio.subprocess.Process]:
        pipe = asyncio.subprocess.PIPE
        environment = {**os.environ, **_ENVIRONMENT}
        process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe, env=environment)
        try:
            yield process
        finally:
            self._process = None
            if process.returncode is None:
                await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Ends it by the end of its input; a batch under way may take a while, but not for ever, nor past a cancel."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _STOP_S)
    finally:
        if process.returncode is None:
            process.kill()
        # Reads what is left in the pipe, which lets the event loop close it now and not when the loop may be gone.
        await process.communicate()


async def _exchange(process: asyncio.subprocess.Process, batch: list[list[int]]) -> Hello | Vectors | Failed:
    assert process.stdin is not None
    process.stdin.write(encode_frame(batch))
    await process.stdin.drain()
    return await _read(process)


async def _read(process: asyncio.subprocess.Process) -> Hello | Vectors | Failed:
    assert process.stdout is not None
    head = await process.stdout.readexactly(LENGTH.size)
    body = await process.stdout.readexactly(LENGTH.unpack(head)[0])
    return msgspec.msgpack.decode(body, type=Hello | Vectors | Failed)
