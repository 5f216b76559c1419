"""Tells whoever watches a document that it has changed, and whoever keeps texts that some are gone, without polling."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUEUE = "queue"
"""Its change: places in the queue have moved."""


class Changes:
    """One event for each watcher; a watcher that is slow sees the latest change only."""

    def __init__(self) -> None:
        self._watchers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._keepers: list[Callable[[str], None]] = []

    def notify(self, name: str) -> None:
        for event in self._watchers.get(name, ()):
            event.set()

    def on_removal(self, keeper: Callable[[str], None]) -> None:
        """The keeper is told the tenant whenever texts of theirs are gone, or are to answer no more."""
        self._keepers.append(keeper)

    def removed(self, tenant: str) -> None:
        for keeper in self._keepers:
            keeper(tenant)

    @contextmanager
    def watching(self, *names: str) -> Iterator[asyncio.Event]:
        """One event for all of these: documents' ids, and `QUEUE`."""
        event = asyncio.Event()
        for name in names:
            self._watchers[name].add(event)
        try:
            yield event
        finally:
            for name in names:
                self._watchers[name].discard(event)
                if not self._watchers[name]:
                    del self._watchers[name]
