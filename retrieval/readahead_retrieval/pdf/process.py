"""The parent's end of a reading process: send, receive with a time limit, kill."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

import msgspec

from readahead_retrieval.framing import HEADER_BYTES
from readahead_retrieval.pdf import frames

_LARGE_BODY_BYTES = 256 << 10
"""Decoded in a thread: a frame of this size would hold up the event loop."""

_REAPED_S = 5.0
"""For the kernel to take back what a killed child holds; a process that does not end by then hangs in it."""

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
    """One child at work on one request.

    Args:
        reader, writer: The connection to it.
        ended: Its exit code, or the signal that ended it, below zero.
        end: Has it killed.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ended: asyncio.Future[int],
        end: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._ended = ended
        self._end = end

    async def send(self, frame: bytes) -> None:
        """Gives it its request; a child that died already will show at the first receive."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._writer.write(frame)
            await self._writer.drain()

    async def receive(self, timeout_s: float) -> frames.Message:
        """The next message.

        Raises:
            ChildDied: There is none.
            ChildTimedOut: It did not come in time; the child still runs.
        """
        try:
            async with asyncio.timeout(timeout_s):
                header = await self._reader.readexactly(HEADER_BYTES)
                body = await self._reader.readexactly(frames.FRAMING.body_length(header))
        except TimeoutError:
            raise ChildTimedOut from None
        except ValueError:
            raise ChildDied from None
        except (asyncio.IncompleteReadError, ConnectionError):
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
                ended_by = -await asyncio.shield(self._ended)
        except TimeoutError:
            return Death.BROKEN
        if ended_by == signal.SIGXCPU:
            return Death.OUT_OF_TIME
        if ended_by in _DELIBERATE:
            return Death.OUT_OF_MEMORY
        return Death.KILLED if ended_by in _FROM_OUTSIDE else Death.BROKEN

    async def kill(self) -> None:
        """Ends the child and waits until it is gone; harmless when it is."""
        self._end()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAPED_S):
                await asyncio.shield(self._ended)
