"""Notices an engine that makes no step though requests wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_LONGEST_NAP_S = 1.0


class Watchdog:
    """Times the silence of a busy engine. Being alive is no progress: only a step is.

    Args:
        stall_s: Seconds of silence after which the engine counts as stalled.
        restart_s: Seconds of silence after which it counts as hung.
        is_busy: Whether requests wait for steps.
    """

    def __init__(self, stall_s: float, restart_s: float, is_busy: Callable[[], bool]) -> None:
        self._stall_s = stall_s
        self._restart_s = restart_s
        self._is_busy = is_busy
        self._heard_at = time.monotonic()

    def heard(self) -> None:
        """Notes a step, or that work begins."""
        self._heard_at = time.monotonic()

    @property
    def is_stalled(self) -> bool:
        return self._is_busy() and self._silence_s >= self._stall_s

    async def hung(self) -> None:
        """Returns once the engine counts as hung."""
        while True:
            if self._is_busy() and self._silence_s >= self._restart_s:
                return
            await asyncio.sleep(min(_LONGEST_NAP_S, self._restart_s / 4))

    @property
    def _silence_s(self) -> float:
        return time.monotonic() - self._heard_at
