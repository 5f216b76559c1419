"""Reading processes on request: the parent's end of the process that forks them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

from readahead_retrieval.pdf import frames
from readahead_retrieval.pdf.forkserver import MESSAGE, Kind
from readahead_retrieval.pdf.process import ChildDied, Death, ReaderProcess

_INHERITED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")
"""The child sees no other variable: keys and addresses of the service are none of its business."""
_STOP_S = 5.0


class Readers:
    """Starts a process for each request, as long as it is open. Belongs to one event loop.

    The server that forks them is started by the first request, and again by the next one after it has died.
    """

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, request: frames.Request) -> ReaderProcess:
        """A process that works on the request, which goes through a socket: a password never shows in `ps`.

        Raises:
            ChildDied: The server dies as often as it is started.
        """
        sent = frames.FRAMING.encode(request)  # before there is a process that a failure would leave behind
        try:
            return await (await self._alive()).fork(sent)
        except _ServerGone:
            pass
        try:
            return await (await self._alive()).fork(sent)
        except _ServerGone:
            raise ChildDied(Death.KILLED) from None

    async def _alive(self) -> _Server:
        async with self._starting:
            if self._server is None or self._server.is_dead:
                await self.close()
                self._server = await _Server.start()
            return self._server

    async def close(self) -> None:
        """Ends the server and every process that it has forked."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()


class _ServerGone(Exception):
    """It takes no requests any more."""


class _Server:
    def __init__(self, process: Process, control: socket.socket) -> None:
        self._process = process
        self._control = control
        self._ends: dict[int, asyncio.Future[int]] = {}
        """By the readers' numbers."""
        self._forked = 0
        self._is_gone = False
        self._listening = asyncio.create_task(self._listen(), name="pdf readers")

    @classmethod
    async def start(cls) -> _Server:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # a module in the working directory must not shadow one of ours
                    "-m",
                    "readahead_retrieval.pdf.forkserver",
                    str(theirs.fileno()),
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    stderr=DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                )
        except BaseException:
            ours.close()
            raise
        return cls(process, ours)

    @property
    def is_dead(self) -> bool:
        return self._is_gone or self._listening.done()

    async def fork(self, sent: bytes) -> ReaderProcess:
        self._forked += 1
        number = self._forked
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [MESSAGE.pack(Kind.FORK, number, 0)], [theirs.fileno()])
            except OSError:  # it died, or hangs so long that a socket's buffer is full of messages
                ours.close()
                self._is_gone = True
                raise _ServerGone from None
        ended = self._ends[number] = asyncio.get_running_loop().create_future()
        child = ReaderProcess(*await asyncio.open_connection(sock=ours), ended, lambda: self._kill(number))
        try:
            await child.send(sent)
        except BaseException:  # a cancellation mostly; whatever it is, nobody else knows of the process
            await child.kill()
            raise
        return child

    def _kill(self, number: int) -> None:
        if number in self._ends:
            with suppress(OSError):
                self._control.send(MESSAGE.pack(Kind.KILL, number, 0))

    async def close(self) -> None:
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._control.close()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _STOP_S)
        finally:
            if self._process.returncode is None:
                # Not Process.kill(), which polls, and so may reap the child before the event loop's watcher does.
                with suppress(ProcessLookupError):
                    os.kill(self._process.pid, signal.SIGKILL)
                await self._process.wait()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while len(data := await loop.sock_recv(self._control, MESSAGE.size)) == MESSAGE.size:
                _, number, status = MESSAGE.unpack(data)
                self._ends.pop(number).set_result(status)
        except OSError:
            pass
        finally:
            for ended in self._ends.values():  # they die with their server
                ended.set_result(-signal.SIGKILL)
            self._ends.clear()


@asynccontextmanager
async def lent(readers: Readers | None) -> AsyncIterator[Readers]:
    """The same, or one's own where there are none, for as long as it takes."""
    if readers is not None:
        yield readers
        return
    async with Readers() as own:
        yield own
