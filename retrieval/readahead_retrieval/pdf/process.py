"""The parent's end of a reading process: start, receive with a time limit, kill and reap."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from enum import Enum

import msgspec

from readahead_retrieval.pdf import frames

_LARGE_BODY_BYTES = 256 << 10
"""Decoded in a thread: a frame of this size would hold up the event loop."""

_INHERITED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")
"""The child sees no other variable: keys and addresses of the service are none of its business."""


_DELIBERATE = frozenset({signal.SIGABRT, signal.SIGTRAP, signal.SIGILL})
"""How PDFium, and the C library, end a process that gets no more memory."""


_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
"""What nothing inside the process sends: the kernel short of memory, or an operator. The file is not to blame."""


class Death(Enum):
    """Why a process ended before it was done."""

    BROKEN = "broken"
    """The file broke it, or it sent what is no message."""
    OUT_OF_MEMORY = "out of memory"
    """It reached its own memory limit."""
    OUT_OF_TIME = "out of time"
    """It reached its own limit of processor time."""
    KILLED = "killed"
    """Somebody else ended it; the same file may well succeed."""


class ChildDied(Exception):
    """The process ended, or sent what is no message, before it was done."""

    def __init__(self, death: Death = Death.BROKEN) -> None:
        super().__init__(death.value)
        self.death = death


class ChildTimedOut(Exception):
    """The process did not answer in time."""


class ReaderProcess:
    """One child at work on one request."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, request: frames.Request) -> ReaderProcess:
        """Starts a child on a request, which goes through standard input: a password never shows in `ps`."""
        sent = frames.encode(request)  # before there is a process that a failure would leave behind
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # a module in the working directory must not shadow one of ours
            "-m",
            "readahead_retrieval.pdf.worker",
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=environment,
        )
        child = cls(process)
        assert process.stdin is not None
        try:
            # A child that died already will show at the first receive.
            with suppress(BrokenPipeError, ConnectionResetError):
                process.stdin.write(sent)
                await process.stdin.drain()
        except BaseException:  # a cancellation mostly; whatever it is, nobody else knows of the process
            await child.kill()
            raise
        return child

    async def receive(self, timeout_s: float) -> frames.Message:
        """The next message.

        Raises:
            ChildDied: There is none.
            ChildTimedOut: It did not come in time; the child still runs.
        """
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                header = await self._process.stdout.readexactly(frames.HEADER_BYTES)
                body = await self._process.stdout.readexactly(frames.body_length(header))
        except TimeoutError:
            raise ChildTimedOut from None
        except ValueError:
            raise ChildDied from None
        except asyncio.IncompleteReadError:
            # It closed its end; whether it is still ending or hangs there, the reason to give is the same.
            raise ChildDied(await self._death()) from None
        try:
            if len(body) > _LARGE_BODY_BYTES:
                return await asyncio.to_thread(frames.decode_message, body)
            return frames.decode_message(body)
        except msgspec.MsgspecError:
            raise ChildDied from None

    async def _death(self) -> Death:
        try:
            async with asyncio.timeout(1):
                ended_by = -await self._process.wait()
        except TimeoutError:
            return Death.BROKEN
        if ended_by == signal.SIGXCPU:
            return Death.OUT_OF_TIME
        if ended_by in _DELIBERATE:
            return Death.OUT_OF_MEMORY
        return Death.KILLED if ended_by in _FROM_OUTSIDE else Death.BROKEN

    async def kill(self) -> None:
        """Ends and reaps the child; harmless when it is gone."""
        if self._process.returncode is None:
            # Not Process.kill(), which polls, and so may reap the child before the event loop's watcher does.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        # Reads what is left in the pipe, which lets the event loop close it now and not when the loop may be gone.
        await self._process.communicate()
