"""The event loop's lag, as the metrics tell it."""

from __future__ import annotations

import asyncio
import time

from readahead_platform.observe.event_loop import EVERY_S, watched_lag

HELD_S = 0.4


def compute() -> None:
    """Holds the loop, as work does that should be somewhere else."""
    time.sleep(HELD_S)


async def test_a_step_that_computes_shows_as_lag_and_watching_ends_with_the_block() -> None:
    lags: list[float] = []
    seen = asyncio.Event()

    def observe(lag: float) -> None:
        lags.append(lag)
        seen.set()

    async with watched_lag(observe):
        await seen.wait()
        compute()
        seen.clear()
        await seen.wait()
        assert max(lags) >= HELD_S - EVERY_S
    told = len(lags)
    await asyncio.sleep(2 * EVERY_S)
    assert len(lags) == told
