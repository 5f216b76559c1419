"""The gateway's port."""

from __future__ import annotations

import asyncio
import socket

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
