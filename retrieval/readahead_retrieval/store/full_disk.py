"""Tells a full disk from other failures, whatever reports it: the system, SQLite, PostgreSQL, an index library."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from readahead_retrieval.errors import StorageFull

_ERRNOS = {errno.ENOSPC, errno.EDQUOT}
_POSTGRES_DISK_FULL = "53100"


@contextmanager
def disk_errors() -> Iterator[None]:
    """Raises `StorageFull` in place of what means it; every other error passes."""
    try:
        yield
    except Exception as error:
        if means_full(error):
            raise StorageFull from error
        raise


def means_full(error: BaseException | None) -> bool:
    """Whether the error, or one that it came from, says that there is no room."""
    while error is not None:
        if _says_full(error) or _says_full(getattr(error, "orig", None)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _says_full(error: object) -> bool:
    return (
        isinstance(error, StorageFull)
        or (isinstance(error, OSError) and error.errno in _ERRNOS)
        or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        or getattr(error, "sqlstate", None) == _POSTGRES_DISK_FULL
        or "No space left on device" in str(error)  # FAISS and tantivy pass on the system's words only
    )
