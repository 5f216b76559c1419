"""A log file that never grows beyond its bound."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from pathlib import Path

logger = logging.getLogger(__name__)

_MAX_BYTES = 4 << 20
_READ_BYTES = 1 << 16


class BoundedLog:
    """Appends to `path`; when it is full it becomes `path`.1, in place of the one before.

    What cannot be written (the disk is full) is lost, and told once: a child whose output nobody reads stands still.
    """

    def __init__(self, path: Path, max_bytes: int = _MAX_BYTES) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._max_bytes = max_bytes
        self._tail: deque[bytes] = deque(maxlen=4)
        self._failing = False

    async def fill_from(self, stream: asyncio.StreamReader) -> None:
        """Copies a child's output until it ends. A write is a few lines into the page cache: no thread is needed."""
        while data := await stream.read(_READ_BYTES):
            self.write(data)

    def write(self, data: bytes) -> None:
        self._tail.append(data)
        try:
            self._append(data)
            self._failing = False
        except OSError as error:
            if not self._failing:
                logger.warning("%s cannot be written: %s", self._path, error.strerror or error)
            self._failing = True

    def _append(self, data: bytes) -> None:
        if self._path.exists() and self._path.stat().st_size + len(data) > self._max_bytes:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(data)

    def last_line(self) -> str:
        """What was said last, for an error's message."""
        lines = b"".join(self._tail).decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""
