"""Clients that hang up, over HTTP: nothing of what they asked for stays, and the others get their answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.llm_server import LlmServer, running_server

MODEL = "smollm2-135m-instruct"
REQUESTS = 30
CANCELLED_SHARE = 0.3


@pytest.fixture(scope="module")
def small_batch(minilm_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlmServer]:
    """A server that keeps most of the storm waiting."""
    log = tmp_path_factory.mktemp("storm") / "stderr.log"
    with running_server(minilm_path.parent, log, embedding_model="", max_running=6, max_queue_seconds=600.0) as server:
        yield server


async def metrics(client: httpx.AsyncClient) -> dict[str, float]:
    lines = (await client.get("/metrics")).text.splitlines()
    pairs = (line.split() for line in lines if line.startswith("readahead_") and "{" not in line)
    return {name: float(value) for name, value in pairs}


async def until_idle(client: httpx.AsyncClient) -> dict[str, float]:
    for _ in range(600):
        seen = await metrics(client)
        if seen["readahead_requests_running"] + seen["readahead_requests_waiting"] == 0:
            return seen
        await asyncio.sleep(0.1)
    raise AssertionError("the server stays busy")


async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> bytes:
    """The whole answer, streamed or not."""
    async with client.stream("POST", "/v1/completions", json=body) as response:
        assert response.status_code == 200, await response.aread()
        return await response.aread()


async def test_a_storm_of_hang_ups_leaves_no_kv_and_harms_no_one(small_batch: LlmServer) -> None:
    dice = random.Random(1)
    limits = httpx.Limits(max_connections=REQUESTS)
    async with httpx.AsyncClient(base_url=small_batch.address, timeout=120, limits=limits) as client:
        before = await metrics(client)
        tasks = []
        for number in range(REQUESTS):
            prompt = [5 + number] * dice.choice([3, 40, 400])
            body = {
                "model": MODEL,
                "prompt": prompt,
                "max_tokens": 8,
                "temperature": 0,
                "ignore_eos": True,
                "stream": number % 2 == 0,
            }
            tasks.append(asyncio.create_task(ask(client, body)))
        leaving = dice.sample(range(REQUESTS), round(CANCELLED_SHARE * REQUESTS))
        for number in leaving:
            await asyncio.sleep(dice.uniform(0, 0.2))
            tasks[number].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        after = await until_idle(client)
    stayed = [result for number, result in enumerate(results) if number not in leaving]
    assert all(isinstance(result, bytes) and b"error" not in result for result in stayed), stayed
    assert any(isinstance(results[number], asyncio.CancelledError) for number in leaving)
    assert after["readahead_kv_tokens_used"] == 0
    assert after["readahead_engine_aborted"] > before["readahead_engine_aborted"]
    assert after["readahead_integrity_checks"] > before["readahead_integrity_checks"]
