"""The parent's end of a workshop process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress

import msgspec

from readahead_retrieval.errors import IndexDamaged, StorageFull, WorkshopDied, WorkshopFailed
from readahead_retrieval.framing import HEADER_BYTES
from readahead_retrieval.spawning import spawned
from readahead_retrieval.workshop import messages

_INHERITED = (
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "OMP_NUM_THREADS",
    "OMP_WAIT_POLICY",
    "CUDA_VISIBLE_DEVICES",
)
"""The child sees no other variable: keys and addresses of the service are none of its business."""
_BUFFER_BYTES = 1 << 20


class WorkshopProcess:
    """One child; one request at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> WorkshopProcess:
        starting = asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # a module in the working directory must not shadow one of ours
            "-m",
            "readahead_retrieval.workshop.worker",
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            limit=_BUFFER_BYTES,
        )
        return cls(await spawned(starting, lambda process: cls(process).kill()))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, request: messages.Request, timeout_s: float) -> messages.Reply:
        """The answer. After an error, and after a cancellation, the process is good for nothing but `kill`.

        Raises:
            WorkshopDied: It ended, was ended, or did not answer in time.
            StorageFull, IndexDamaged, WorkshopFailed: It could not do what it was asked.
        """
        try:
            async with asyncio.timeout(timeout_s):
                reply = messages.decode_reply(await self._exchange(messages.FRAMING.encode(request)))
        except (OSError, ValueError, asyncio.IncompleteReadError, msgspec.MsgspecError) as error:
            raise WorkshopDied(f"{type(error).__name__} over {type(request).__name__}") from error
        if isinstance(reply, messages.Failed):
            raise _failure(reply)
        return reply

    async def kill(self) -> None:
        """Ends and reaps the child; harmless when it is gone."""
        if self.is_alive:
            # Not Process.kill(), which polls, and so may reap the child before the event loop's watcher does.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        # Reads what is left in the pipe, which lets the event loop close it now and not when the loop may be gone.
        await self._process.communicate()

    async def _exchange(self, request: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(request)
        await self._process.stdin.drain()
        header = await self._process.stdout.readexactly(HEADER_BYTES)
        return await self._process.stdout.readexactly(messages.FRAMING.body_length(header))


def _failure(failed: messages.Failed) -> Exception:
    if failed.kind == "full":
        return StorageFull()
    return IndexDamaged(failed.message) if failed.kind == "damaged" else WorkshopFailed(failed.message)
