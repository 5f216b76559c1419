"""Ends work whose asker has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
from fastapi import Request

from readahead_platform.errors import ApiError

T = TypeVar("T")


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end, or cancels it as soon as the client leaves; the request's body must have been read.

    Raises:
        ApiError: 499 when the client has left; nobody reads it, but the log does.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait([task, watcher], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(499, "The client closed the connection.", code="client_closed_request")
        return task.result()
    finally:
        task.cancel()
        watcher.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task, watcher])


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
