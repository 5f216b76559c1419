"""Pack commands to the engine process, each awaited until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from readahead_serving.engine.pack_messages import (
    DetachPack,
    PackCommand,
    PackDetached,
    PackEvent,
    PackLost,
    PackProgress,
)

ENGINE_LOST = "engine_lost: the engine stopped meanwhile"
Answer = asyncio.Future[PackEvent]


class PackChannel:
    """Connects a shelf with whichever engine process runs."""

    def __init__(self, on_progress: Callable[[PackProgress], None]) -> None:
        self._on_progress = on_progress
        self._send: Callable[[PackCommand], None] | None = None
        self._waiting: list[tuple[PackCommand, Answer]] = []

    @property
    def is_connected(self) -> bool:
        return self._send is not None

    def connect(self, send: Callable[[PackCommand], None]) -> None:
        self._send = send

    def disconnect(self) -> None:
        """The engine process has gone, and with it everything in its memory."""
        self._send = None
        for command, answer in self._waiting:
            if not answer.done():
                answer.set_result(_gone(command))
        self._waiting.clear()

    async def ask(self, command: PackCommand) -> PackEvent:
        """Sends a command and waits until the engine has carried it out, or is gone."""
        if self._send is None:
            return _gone(command)
        answer: Answer = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        self._send(command)
        return await answer

    def on_event(self, event: PackEvent) -> None:
        if isinstance(event, PackProgress):
            self._on_progress(event)
            return
        answered = [one for one in self._waiting if _answers(event, one[0])]
        for one in answered:
            self._waiting.remove(one)
            if not one[1].done():
                one[1].set_result(event)


def _answers(event: PackEvent, command: PackCommand) -> bool:
    if event.pack_id != command.pack_id:
        return False
    return isinstance(event, PackDetached) or not isinstance(command, DetachPack)


def _gone(command: PackCommand) -> PackEvent:
    if isinstance(command, DetachPack):
        return PackDetached(pack_id=command.pack_id)
    return PackLost(pack_id=command.pack_id, reason=ENGINE_LOST)
