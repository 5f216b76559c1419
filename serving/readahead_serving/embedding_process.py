"""Starts the embedding process, talks to it, and restarts it when it dies."""

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

from readahead_serving.embedding_worker import LENGTH, Failed, Hello, Vectors, encode_frame
from readahead_serving.errors import EngineUnavailable, GenerationFailed, ModelLoadError

logger = logging.getLogger(__name__)

_FIRST_BACKOFF_S = 0.5
_MAX_BACKOFF_S = 30.0
_STOP_S = 5.0
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
    """

    def __init__(self, path: Path, *, threads: int, dtype: Literal["bfloat16", "float32"]) -> None:
        self._command = [sys.executable, "-m", "readahead_serving.embedding_worker", str(path), str(threads), dtype]
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
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The id of the process that answers; None while there is none."""
        return None if self._process is None else self._process.pid

    async def embed(self, batch: list[list[int]]) -> list[bytes]:
        """Vectors of a batch of token id sequences, each float32 little-endian bytes.

        Raises:
            EngineUnavailable: The process is starting or died; it is being restarted.
            GenerationFailed: The model can't compute this batch.
        """
        process = self._process
        if process is None:
            raise EngineUnavailable("The embedding process is starting.")
        try:
            assert process.stdin is not None
            process.stdin.write(encode_frame(batch))
            await process.stdin.drain()
            answer = await _read(process)
        except (OSError, asyncio.IncompleteReadError) as error:
            self._process = None
            raise EngineUnavailable("The embedding process died; it is being restarted.") from error
        if isinstance(answer, Vectors):
            size = len(answer.data) // len(batch)
            return [answer.data[at : at + size] for at in range(0, len(answer.data), size)]
        raise GenerationFailed(answer.message if isinstance(answer, Failed) else "Unexpected answer.")

    async def close(self) -> None:
        """Ends the process."""
        self._supervisor.cancel()
        await asyncio.gather(self._supervisor, return_exceptions=True)
        if not self._hello.done():
            self._hello.cancel()

    async def _supervise(self) -> None:
        backoff = _FIRST_BACKOFF_S
        while True:
            async with self._spawned() as process:
                if await self._greeted(process):
                    self._process = process
                    backoff = _FIRST_BACKOFF_S
                    await process.wait()
                    self._process = None
                    logger.warning("The embedding process ended with code %s; restarting it", process.returncode)
            if self._hello.done() and self._hello.exception() is not None:
                return
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF_S)

    async def _greeted(self, process: asyncio.subprocess.Process) -> bool:
        """Whether the process has loaded its model. A model that has never loaded won't load the next time either."""
        try:
            first = await _read(process)
        except asyncio.IncompleteReadError:
            first = Failed(message="the embedding process died while it loaded the model")
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
        await process.wait()


async def _read(process: asyncio.subprocess.Process) -> Hello | Vectors | Failed:
    assert process.stdout is not None
    head = await process.stdout.readexactly(LENGTH.size)
    body = await process.stdout.readexactly(LENGTH.unpack(head)[0])
    return msgspec.msgpack.decode(body, type=Hello | Vectors | Failed)
