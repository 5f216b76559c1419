"""The folder that holds everything, and the lock that gives it one owner."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from readahead_retrieval.errors import LibraryInUse


@dataclass(frozen=True, slots=True)
class Home:
    path: Path

    @property
    def files(self) -> Path:
        return self.path / "files"

    @property
    def indexes(self) -> Path:
        return self.path / "indexes"

    @property
    def database(self) -> Path:
        return self.path / "readahead.db"

    @property
    def key(self) -> Path:
        return self.path / "document-passwords.key"


class HomeLock:
    """Held while a library is open; the system frees it when the process dies, however it dies."""

    def __init__(self, home: Home) -> None:
        home.path.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(home.path / "library.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise LibraryInUse(
                f"{home.path} is open in another process: stop that one, or choose another home."
            ) from None

    def release(self) -> None:
        # by word too: a child that is being started holds a copy of the descriptor for a moment, and the lock with it
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
