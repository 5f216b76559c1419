"""Ties work to the connection that asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Does `work`, and cancels it the moment the client hangs up.

    Starlette cancels streaming responses by itself, but never a handler that is still computing its answer.

    Args:
        receive: The request's ASGI channel, its body already read.

    Raises:
        ClientDisconnect: The client left before the work was done. The work has been cancelled and has ended.
    """
    worker = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({worker, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not worker.done():
            raise ClientDisconnect
        return worker.result()
    finally:
        worker.cancel()
        gone.cancel()
        await asyncio.gather(worker, gone, return_exceptions=True)
