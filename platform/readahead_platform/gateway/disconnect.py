"""Ends work whose asker has gone, and work that a stopping gateway cannot wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
from fastapi import Request

from readahead_platform.errors import ApiError
from readahead_platform.gateway.drain import Drain, stopping

T = TypeVar("T")


async def unless_disconnected(request: Request, drain: Drain, work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end, or cancels it as soon as the client leaves; the request's body must have been read.

    Raises:
        ApiError: 499 when the client has left; nobody reads it, but the log does. 503 when the gateway stops.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(_disconnected(request))
    over = asyncio.create_task(drain.over())
    try:
        await asyncio.wait([task, watcher, over], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if over.done():
            raise stopping()
        raise ApiError(499, "The client closed the connection.", code="client_closed_request")
    finally:
        for each in (task, watcher, over):
            each.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task, watcher, over])


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
