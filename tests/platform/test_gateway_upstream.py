"""What the gateway makes of an LLM server that closes, hangs, or takes its time."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import LlmClient, Patience

Handler = Callable[["Upstream", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BODY = {"model": "m", "prompt": "x"}


@dataclass
class Upstream:
    """A server of raw sockets, whose connections each follow `handler`."""

    handler: Handler
    port: int = 0
    requests: int = 0
    connections: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self.handler(self, reader, writer)
        finally:
            writer.close()

    async def read_request(self, reader: asyncio.StreamReader) -> dict[str, str]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length: ")[1].split("\r\n")[0])
        self.requests += 1
        self.reached.set()
        body: dict[str, str] = json.loads(await reader.readexactly(length))
        return body


@contextlib.asynccontextmanager
async def upstream(handler: Handler, *, answer_s: float = 30) -> AsyncIterator[tuple[Upstream, LlmClient]]:
    served = Upstream(handler)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    client = LlmClient(f"http://127.0.0.1:{served.port}", "key", Patience(idle_s=0.2, answer_s=answer_s))
    try:
        yield served, client
    finally:
        await client.close()
        server.close()


async def answer(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
    await writer.drain()


async def closes_its_first_connection_at_the_second_request(
    served: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    is_first = served.connections == 1
    await served.read_request(reader)
    await answer(writer)
    await served.read_request(reader)
    if not is_first:
        await answer(writer)


async def test_a_request_on_a_connection_that_was_just_closed_is_sent_again() -> None:
    async with upstream(closes_its_first_connection_at_the_second_request) as (served, client):
        for _ in range(2):
            reply = await client.request("POST", "/v1/completions", BODY)
            assert reply.status == 200
    assert (served.connections, served.requests) == (2, 3)


async def closes_every_connection(served: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await served.read_request(reader)


async def test_a_request_that_a_fresh_connection_did_not_answer_is_not_sent_again() -> None:
    async with upstream(closes_every_connection) as (served, client):
        with pytest.raises(ApiError) as raised:
            await client.request("POST", "/v1/completions", BODY)
    assert (raised.value.status, raised.value.code) == (503, "model_unavailable")
    assert served.requests == 1


async def answers_after_the_idle_time(
    served: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    await served.read_request(reader)
    await asyncio.sleep(0.5)
    await answer(writer)


async def test_an_answer_that_is_not_streamed_may_take_longer_than_a_stream_may_be_silent() -> None:
    async with upstream(answers_after_the_idle_time) as (_served, client):
        assert (await client.request("POST", "/v1/completions", BODY)).status == 200


async def never_answers(served: Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await served.read_request(reader)
    await reader.read()
    served.gone.set()


async def test_an_answer_over_its_bound_is_given_up_for_good() -> None:
    async with upstream(never_answers, answer_s=0.3) as (served, client):
        with pytest.raises(ApiError) as raised:
            await client.request("POST", "/v1/completions", BODY)
        async with asyncio.timeout(10):
            await served.gone.wait()
    assert (raised.value.status, raised.value.code) == (504, "answer_timeout")
    assert raised.value.retry_after_s is None


async def test_who_leaves_ends_the_work_upstream() -> None:
    async with upstream(never_answers) as (served, client):
        asking = asyncio.create_task(client.request("POST", "/v1/completions", BODY))
        async with asyncio.timeout(10):
            await served.reached.wait()
            asking.cancel()
            await served.gone.wait()


@pytest.mark.parametrize(
    ("timeout", "waits_s"), [(30, 40.0), (1000, 600.0), (None, 600.0), ("soon", 600.0), (True, 600.0), (-1, 600.0)]
)
def test_a_request_that_limits_itself_is_waited_for_as_long_and_no_longer(timeout: object, waits_s: float) -> None:
    assert Patience(idle_s=120, answer_s=600).for_answer({"timeout": timeout}) == waits_s
