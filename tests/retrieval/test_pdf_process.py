"""The parent's end of a reader."""

from __future__ import annotations

import asyncio
import signal
import socket

import pytest

from readahead_retrieval.pdf.process import ChildDied, Death, ReaderProcess


async def test_a_reader_that_is_gone_before_its_request_is_told_as_gone() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    ended.set_result(-signal.SIGKILL)
    child = ReaderProcess(*await asyncio.open_connection(sock=ours), ended, lambda: None)
    try:
        await child.send(b"a request")
        with pytest.raises(ChildDied) as died:
            await child.receive(timeout_s=10)
    finally:
        await child.kill()
    assert died.value.death is Death.KILLED
