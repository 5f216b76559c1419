"""The engine process seen from its parent: start, talk, end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from pathlib import Path
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from readahead_serving.engine.messages import Command, EngineConfig, EngineFailed, EngineLoaded, Event, StepOutputs
from readahead_serving.engine.socket_folder import COMMANDS, OUTPUTS, make_socket_folder
from readahead_serving.errors import EngineUnavailable, ModelLoadError
from readahead_serving.settings import ServingSettings

ENGINE_MODULE = "readahead_serving.engine.process"
WAIT_POLICY = "PASSIVE"
"""How OpenMP's threads wait for each other, unless the environment says otherwise. Spinning, its default, keeps a core
from the very thread that is waited for as soon as anything else runs: on two busy cores a decode step takes 590 ms
spinning and 20 ms sleeping."""


class EngineProcess:
    """One engine process with its two sockets, which lie in a private folder and die with it.

    Use `start`. A process that has died is not restarted: start another.
    """

    def __init__(self, settings: ServingSettings, model_path: Path, module: str) -> None:
        self._module = module
        self._folder = make_socket_folder()
        self._config = EngineConfig(
            model_path=str(model_path),
            dtype=settings.dtype,
            weights=settings.weights,
            kernels=settings.kernels,
            kernels_dir=str(settings.kernels_dir.expanduser()),
            kv_cache_bytes=settings.kv_cache_bytes,
            pack_kv=settings.pack_kv,
            max_running=settings.max_running,
            prefill_chunk_tokens=settings.prefill_chunk_tokens,
            tbt_target_ms=settings.tbt_target_ms,
            tenant_share=settings.tenant_share,
            threads=settings.threads,
            speculative_tokens=settings.speculative_tokens,
            speculation_max_running=settings.speculation_max_running,
            commands=f"ipc://{self._folder}/{COMMANDS}",
            outputs=f"ipc://{self._folder}/{OUTPUTS}",
        )
        self._context = zmq.asyncio.Context()
        self._commands = self._socket(zmq.PUSH, self._config.commands)
        self._outputs = self._socket(zmq.PULL, self._config.outputs)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Event)
        self._process: Process | None = None
        self._exit: asyncio.Future[int] | None = None

    def _socket(self, kind: int, address: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        # No limit here: whoever sends limits the requests in flight, and an abort must never be dropped.
        socket.set_hwm(0)
        socket.linger = 0
        socket.bind(address)
        return socket

    @classmethod
    async def start(
        cls, settings: ServingSettings, model_path: Path, module: str = ENGINE_MODULE
    ) -> tuple[EngineProcess, EngineLoaded]:
        """Starts the process, which runs `module`, and waits until its model is loaded.

        Raises:
            ModelLoadError: The engine refuses the model or the settings.
            EngineUnavailable: It died while loading.
        """
        process = cls(settings, model_path, module)
        try:
            return process, await process._load()
        except BaseException:
            await process.close()
            raise

    async def _load(self) -> EngineLoaded:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            stdin=PIPE,
            stdout=DEVNULL,
            env={"OMP_WAIT_POLICY": WAIT_POLICY, **os.environ},
        )
        self._exit = asyncio.ensure_future(self._process.wait())
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # died at once: receiving tells
            self._process.stdin.write(msgspec.json.encode(self._config) + b"\n")
            await self._process.stdin.drain()
        event = await self._receive()
        if isinstance(event, EngineFailed):
            raise ModelLoadError(event.message)
        assert isinstance(event, EngineLoaded), event
        return event

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def send(self, command: Command) -> None:
        """Hands a command over without waiting."""
        # With no limit on the queue the future is done at once; a closed socket raises.
        self._commands.send(self._encoder.encode(command))

    async def receive(self) -> StepOutputs:
        """The next outputs.

        Raises:
            EngineUnavailable: The process has died, and all it had said is read.
        """
        event = await self._receive()
        assert isinstance(event, StepOutputs), event
        return event

    async def _receive(self) -> Event:
        assert self._exit is not None
        received: asyncio.Future[bytes] = asyncio.ensure_future(self._outputs.recv())
        try:
            waited: set[asyncio.Future[Any]] = {received, self._exit}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if received.done() or await self._outputs.poll(0):
                return self._decoder.decode(await received)
        finally:
            received.cancel()
        raise EngineUnavailable(f"The engine process ended with code {self._exit.result()}.")

    def kill(self) -> None:
        """Ends the process at once; `receive` then raises. It keeps nothing that could be lost."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def close(self) -> None:
        """Ends the process, whatever it is doing, and removes its sockets."""
        try:
            if self._process is not None and self._exit is not None:
                await self._kill(self._process, self._exit)
        finally:
            self._context.destroy(linger=0)
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _kill(self, process: Process, exit_code: asyncio.Future[int]) -> None:
        self.kill()
        await exit_code
        assert process.stdin is not None
        process.stdin.close()
