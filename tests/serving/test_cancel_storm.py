"""Clients that hang up, over HTTP: what they asked for ends wherever it is, and others get their answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from tests.serving.llm_server import LlmServer, running_server
from tests.serving.tiny_model import save_tiny_model

MODEL = "tiny"
MAX_RUNNING = 4
REQUESTS = 240
CANCELLED_SHARE = 0.4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlmServer]:
    """A server that keeps most of the storm waiting, and that computes long prompts in many steps."""
    folder = tmp_path_factory.mktemp("storm")
    limits = {"max_running": MAX_RUNNING, "max_waiting": REQUESTS, "max_queue_seconds": 600.0}
    model = {"model": str(save_tiny_model(folder / MODEL)), "embedding_model": "", "prefill_chunk_tokens": 16}
    with running_server(folder, folder / "stderr.log", kv_cache_bytes=24 << 20, **limits, **model) as server:
        yield server


@pytest.fixture
async def client(server: LlmServer) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=server.address, timeout=120, limits=limits) as client:
        yield client


async def metrics(client: httpx.AsyncClient) -> dict[str, float]:
    lines = (await client.get("/metrics")).text.splitlines()
    pairs = (line.split() for line in lines if line.startswith("readahead_") and "{" not in line)
    return {name.removeprefix("readahead_"): float(value) for name, value in pairs}


async def until(client: httpx.AsyncClient, **wanted: float) -> dict[str, float]:
    """Waits until some metrics have these values, a minute at most."""
    for _ in range(6000):
        seen = await metrics(client)
        if all(seen[name] == value for name, value in wanted.items()):
            return seen
        await asyncio.sleep(0.01)
    raise AssertionError(f"{ {name: seen[name] for name in wanted} } never became {wanted}")


async def until_decoding(client: httpx.AsyncClient) -> None:
    """Waits until a short prompt's completion has gone on into its second block of KV."""
    for _ in range(1200):
        if (await metrics(client))["kv_tokens_used"] > 128:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing decodes")


async def until_idle(client: httpx.AsyncClient) -> dict[str, float]:
    return await until(client, requests_running=0, requests_waiting=0, kv_tokens_used=0)


def body(prompt: list[int], *, max_tokens: int = 8, stream: bool = False, **fields: Any) -> dict[str, Any]:
    fixed = {"model": MODEL, "temperature": 0, "ignore_eos": True}
    return {**fixed, "prompt": prompt, "max_tokens": max_tokens, "stream": stream, **fields}


async def ask(client: httpx.AsyncClient, asked: dict[str, Any]) -> bytes:
    """The whole answer, streamed or not."""
    async with client.stream("POST", "/v1/completions", json=asked) as response:
        assert response.status_code == 200, await response.aread()
        return await response.aread()


async def fill_batch(client: httpx.AsyncClient, stack: AsyncExitStack) -> list[httpx.Response]:
    """Streams that hold every place until they are closed, or the stack is."""
    streams = []
    for number in range(MAX_RUNNING):
        asked = body([7 + number], max_tokens=16_000, stream=True)
        streams.append(await stack.enter_async_context(client.stream("POST", "/v1/completions", json=asked)))
    await until(client, requests_running=MAX_RUNNING)
    return streams


async def test_a_storm_of_hang_ups_leaves_no_kv_and_harms_no_one(client: httpx.AsyncClient) -> None:
    dice = random.Random(1)
    before = await until_idle(client)
    asked = [
        body([n % 200, n % 13, 5] * dice.choice([1, 20, 200]), max_tokens=dice.choice([2, 8, 60]), stream=n % 2 == 0)
        for n in range(REQUESTS)
    ]
    tasks = [asyncio.create_task(ask(client, one)) for one in asked]
    leaving = dice.sample(range(REQUESTS), round(CANCELLED_SHARE * REQUESTS))
    for number in leaving:
        await asyncio.sleep(dice.uniform(0, 0.03))
        tasks[number].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    after = await until_idle(client)
    stayed = [result for number, result in enumerate(results) if number not in leaving]
    assert all(isinstance(result, bytes) and b"error" not in result for result in stayed), stayed
    left = sum(isinstance(results[number], asyncio.CancelledError) for number in leaving)
    assert left > REQUESTS // 10
    assert 0 < after["engine_aborted"] - before["engine_aborted"] <= left
    assert after["integrity_checks"] > before["integrity_checks"], "the engine proved that no block is lost"
    # what ended before it was cancelled, or was cancelled while its end was on the way, is counted as well
    completed = sum(one["max_tokens"] for number, one in enumerate(asked) if number not in leaving)
    assert after["completion_tokens_total"] - before["completion_tokens_total"] >= completed
    probe = body([1, 2, 3], max_tokens=3)
    assert await ask(client, probe)
    await until_idle(client)


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("phase", ["queue", "prefill", "decode"])
async def test_a_client_that_leaves_ends_its_request_in_every_phase(
    phase: str, stream: bool, client: httpx.AsyncClient
) -> None:
    await until_idle(client)
    async with AsyncExitStack() as stack:
        streams = await fill_batch(client, stack) if phase == "queue" else []
        before = await metrics(client)
        length = {"queue": 10, "prefill": 15_000, "decode": 3}[phase]
        asked = body([len(phase), stream] * length, max_tokens=400 if phase == "prefill" else 16_000, stream=stream)
        asked["prompt"] = asked["prompt"][:length]
        task = asyncio.create_task(ask(client, asked))
        if phase == "queue":
            await until(client, requests_waiting=1)
        else:
            await until(client, requests_running=1)
        if phase == "decode":
            await until_decoding(client)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        after = await until(client, requests_waiting=0, requests_running=len(streams))
        assert after["engine_aborted"] == before["engine_aborted"] + 1
        computed = after["prompt_tokens_computed"] - before["prompt_tokens_computed"]
        assert computed == {"queue": 0, "decode": length}.get(phase, computed)
        assert computed < length or phase == "decode", "it ended before its prompt was through"
    await until_idle(client)


async def test_the_lower_priority_goes_first_however_late_it_comes(client: httpx.AsyncClient) -> None:
    await until_idle(client)
    order: list[str] = []

    async def queue(name: str, priority: int, waiting: int) -> asyncio.Task[None]:
        async def run() -> None:
            await ask(client, body([9, priority % 200], max_tokens=200, priority=priority))
            order.append(name)

        task = asyncio.create_task(run())
        await until(client, requests_waiting=waiting)
        return task

    async with AsyncExitStack() as stack:
        streams = await fill_batch(client, stack)
        tasks = [await queue("late", 5, 1), await queue("middle", 0, 2), await queue("soon", -5, 3)]
        await streams[0].aclose()  # one place, which they take in turn
        await asyncio.gather(*tasks)
    assert order == ["soon", "middle", "late"]
    await until_idle(client)


async def test_cached_tokens_are_taken_over_within_a_salt_only(client: httpx.AsyncClient) -> None:
    async def cached(salt: str) -> int:
        headers = {"x-readahead-salt": salt}
        answer = await client.post("/v1/completions", json=body([3, 1, 4] * 100, max_tokens=1), headers=headers)
        details = answer.json()["usage"]["prompt_tokens_details"]
        return int(details["cached_tokens"])

    assert await cached("one tenant") == 0
    assert await cached("one tenant") > 200
    assert await cached("another tenant") == 0
    assert await cached("") == 0
