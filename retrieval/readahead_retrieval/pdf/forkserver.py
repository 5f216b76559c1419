"""The process that forks readers: `python -m readahead_retrieval.pdf.forkserver FD`.

It has imported what a reader needs, so a fresh one costs milliseconds instead of the tenth of a second of an
interpreter's start. It never opens a file itself: everything of a stranger happens in a fork, which limits itself,
answers one request over a socket of its own and ends. The parent's messages come over the socket that is the file
descriptor FD; when it closes, everything here ends.
"""

from __future__ import annotations

import ctypes
import gc
import os
import selectors
import signal
import socket
import struct
import sys
from enum import IntEnum
from typing import NoReturn

MESSAGE = struct.Struct("<iii")
"""Kind, the number that the parent gave the reader, and how it ended: an exit code, or a signal below zero."""

_PR_SET_PDEATHSIG = 1


class Kind(IntEnum):
    FORK = 1
    """To here, with the reader's socket."""
    KILL = 2
    """To here."""
    ENDED = 3
    """From here."""


class _ForkServer:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._wake, self._woken = socket.socketpair()
        self._readers: dict[int, int] = {}
        """Process ids to numbers; an id stays taken until it is reaped here, so a kill never meets a stranger."""

    def run(self) -> None:
        """Returns when the parent is gone; the readers go with this process."""
        self._woken.setblocking(False)  # as the interpreter demands it
        signal.set_wakeup_fd(self._woken.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's, for the whole group: the service ends us
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._wake:
                        self._wake.recv(4096)
                    elif not self._obey():
                        return
                self._reap()

    def _obey(self) -> bool:
        """Does as one message says; False where there is none any more."""
        data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE.size, 1)
        if len(data) < MESSAGE.size:
            return False
        kind, number, _ = MESSAGE.unpack(data)
        if kind == Kind.FORK:
            self._fork(number, descriptors[0])
        else:
            for process in [process for process, its in self._readers.items() if its == number]:
                os.kill(process, signal.SIGKILL)
        return True

    def _fork(self, number: int, descriptor: int) -> None:
        try:
            process = os.fork()
        except OSError:  # no memory, or too many processes: as if the kernel had ended it, so it is tried again
            self._tell(number, -signal.SIGKILL)
        else:
            if process == 0:
                self._become_reader(descriptor)
            self._readers[process] = number
        os.close(descriptor)

    def _become_reader(self, descriptor: int) -> NoReturn:
        """What the service sends to others is none of a reader's business."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server = os.getppid()
            _die_with_parent()
            for own in (self._control, self._wake, self._woken):
                own.close()
            if os.getppid() == server:
                from readahead_retrieval.pdf.worker import answer

                with socket.socket(fileno=descriptor) as connection:
                    answer(connection.makefile("rb"), connection.makefile("wb"))
                status = 0
        finally:
            os._exit(status)

    def _reap(self) -> None:
        while self._readers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                return
            self._tell(self._readers.pop(process), os.waitstatus_to_exitcode(status))

    def _tell(self, number: int, status: int) -> None:
        self._control.sendall(MESSAGE.pack(Kind.ENDED, number, status))


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> None:
    """Loads what readers need, and serves until the parent is gone."""
    from readahead_retrieval.pdf import worker  # noqa: F401  for the forks

    # Pages make hundreds of thousands of objects without cycles, which the collector would search for nothing.
    gc.collect()
    gc.disable()
    gc.freeze()
    _ForkServer(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
