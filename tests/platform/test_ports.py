"""The gateway's port."""

from __future__ import annotations

import asyncio
import socket

import pytest

from readahead_platform.errors import StartError
from readahead_platform.ports import bind_gateway


async def test_small_answers_leave_at_once() -> None:
    delayed: list[int] = []
    seen = asyncio.Event()

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        delayed.append(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()
        seen.set()

    with bind_gateway("127.0.0.1", 0) as listener:
        async with await asyncio.start_server(answer, sock=listener):
            _reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
            await seen.wait()
            writer.close()
    assert delayed == [1]


def test_a_port_that_somebody_has_bound_and_not_opened_yet_is_taken_by_one_only() -> None:
    with bind_gateway("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(StartError, match=rf"{port}.*--port"):
            bind_gateway("127.0.0.1", port)
