"""How requests follow each other: users that wait for their answers, or arrivals that wait for nobody."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import chain

from readahead_serving.bench.client import LoadClient, LoadRequest, Timing


async def closed_loop(client: LoadClient, requests: Sequence[LoadRequest], concurrency: int) -> list[Timing]:
    """Sends every request, `concurrency` at a time: a new one goes out the moment one comes back."""
    waiting = iter(requests)

    async def user() -> list[Timing]:
        return [await client.send(request) for request in waiting]

    return list(chain.from_iterable(await asyncio.gather(*(user() for _ in range(concurrency)))))


async def open_loop(client: LoadClient, requests: Sequence[LoadRequest], rate: float, seed: int) -> list[Timing]:
    """Sends requests as a Poisson process, whatever has come back: a closed loop would hide the queue.

    Args:
        client: Where they go.
        requests: In order of arrival.
        rate: Arrivals a second on average.
        seed: Of the gaps between arrivals, so that every server gets the same ones.
    """
    dice = random.Random(seed)
    loop = asyncio.get_running_loop()
    arrival = loop.time()
    sent = []
    for request in requests:
        arrival += dice.expovariate(rate)
        await asyncio.sleep(max(0.0, arrival - loop.time()))
        sent.append(asyncio.create_task(client.send(request)))
    return list(await asyncio.gather(*sent))
