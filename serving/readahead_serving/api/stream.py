"""Opens the event stream of a generation once the engine has taken it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from readahead_serving.api.generation import Generation
from readahead_serving.api.sse import EventStream


async def open_stream(generation: Generation, frames: AsyncIterator[bytes], heartbeat_s: float) -> EventStream:
    """The response that sends `frames`, which read `generation`; it closes both.

    Raises:
        ServingError: The engine refused the request at once, so there is a status to say it with.
    """
    try:
        await generation.admitted()
    except BaseException:
        await generation.aclose()
        raise
    return EventStream(frames, source=generation, heartbeat_s=heartbeat_s)
