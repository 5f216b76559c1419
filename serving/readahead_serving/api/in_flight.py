"""Requests that have begun and not ended: what a server that stops waits for, the LLM server and the gateway alike."""

from __future__ import annotations

import asyncio
import contextlib


class InFlight:
    """Counts them."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def enter(self) -> None:
        self._count += 1
        self._idle.clear()

    def leave(self) -> None:
        self._count -= 1
        if self._count == 0:
            self._idle.set()

    async def idle(self, timeout_s: float) -> bool:
        """Waits until there is none; returns False if that took too long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        return self._idle.is_set()
