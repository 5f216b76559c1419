"""The home of a service: claimed for one `readahead up` at a time, and closed to other users of the machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from readahead_platform.errors import StartError

_PRIVATE_FOLDERS = ("files", "indexes", "packs", "logs", "web")
_PRIVATE_FILES = ("readahead.db", "readahead.db-wal", "readahead.db-shm", "library.lock", "up.lock")


@contextlib.contextmanager
def claimed_home(home: Path) -> Iterator[None]:
    """Makes the home where it is missing, and holds it; the system frees it when the process dies, however it dies.

    Whatever this process and its children write is for their user only. `home` itself keeps its mode when it was there
    before: it may be shared for the sake of its models.

    Raises:
        StartError: It is no folder, cannot be written, or another service has claimed it; names the mend.
    """
    os.umask(0o077)
    try:
        home.mkdir(parents=True, exist_ok=True)
        close_to_others(home)
        descriptor = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        problem = unusable_home(home) or f"{home} cannot be used ({error.strerror or error})"
        raise StartError(f"{problem}; set READAHEAD_HOME to a folder you may write.") from error
    try:
        _lock(descriptor, home)
        yield
    finally:
        os.close(descriptor)


def unusable_home(home: Path) -> str | None:
    """Why `home` can be neither made nor written; None when it can."""
    place = next(path for path in (home, *home.parents) if os.path.lexists(path))
    if not place.is_dir():
        return f"{place} is not a folder"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"{place} cannot be written"
    return None


def close_to_others(home: Path) -> None:
    """Takes away what an earlier version, or a wide umask, has left readable for other users."""
    for names, mode in ((_PRIVATE_FOLDERS, 0o700), (_PRIVATE_FILES, 0o600)):
        for path in (home / name for name in names):
            if path.exists() and path.stat().st_mode & 0o077:
                path.chmod(mode)


def _lock(descriptor: int, home: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StartError(
            f"Another `readahead up` runs in {home}: stop that one, or set READAHEAD_HOME to another folder."
        ) from None
