"""The chats of `measure_gateway_lag.py`, for a process of their own."""

from __future__ import annotations

import asyncio
import time
from multiprocessing.connection import Connection

import httpx

QUESTIONS = ("How heavy is the pump?", "When is the oil changed?", "What does the warranty cover?")


def chat_for_ever(pipe: Connection, port: int, chats: int) -> None:
    key = pipe.recv()
    latencies: list[tuple[float, float]] = []
    asyncio.run(_chats(pipe, port, chats, key, latencies))
    pipe.send(latencies)


async def _chats(pipe: Connection, port: int, chats: int, key: str, latencies: list[tuple[float, float]]) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1", headers=headers, timeout=60) as client:
        tasks = [asyncio.create_task(_chat(client, number, latencies)) for number in range(chats)]
        ended = asyncio.create_task(asyncio.to_thread(pipe.recv))
        await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()


async def _chat(client: httpx.AsyncClient, number: int, latencies: list[tuple[float, float]]) -> None:
    while True:
        question = QUESTIONS[number % len(QUESTIONS)]
        number += 1
        body = {"model": "kb/facts", "stream": True, "messages": [{"role": "user", "content": question}]}
        begun = time.monotonic()
        async with client.stream("POST", "/chat/completions", json=body) as response:
            assert response.status_code == 200, await response.aread()
            async for _ in response.aiter_lines():
                pass
        latencies.append((begun, time.monotonic() - begun))
