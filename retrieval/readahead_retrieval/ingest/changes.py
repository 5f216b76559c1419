"""Tells whoever watches a document that it has changed, without polling."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """One event for each watcher; a watcher that is slow sees the latest change only."""

    def __init__(self) -> None:
        self._watchers: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def notify(self, document_id: str) -> None:
        for event in self._watchers.get(document_id, ()):
            event.set()

    @contextmanager
    def watching(self, document_id: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._watchers[document_id].add(event)
        try:
            yield event
        finally:
            self._watchers[document_id].discard(event)
            if not self._watchers[document_id]:
                del self._watchers[document_id]
