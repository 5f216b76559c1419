"""What must be done in the end, however long the disk is full or the database locked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
RETRY_S = 2.0
"""From a failed try to the next."""

log = logging.getLogger(__name__)


async def outlasting(work: Callable[[], Awaitable[T]], what: str, retry_s: float = RETRY_S) -> T:
    """Tries until it succeeds; ended by cancellation alone. For work of background tasks, which nobody else repeats.

    Args:
        what: Names the work in the log.
    """
    while True:
        try:
            return await work()
        except Exception:  # top of a background task: a full disk or a locked database passes
            log.exception("%s failed; it is tried again in %g s", what, retry_s)
            await asyncio.sleep(retry_s)
