"""Seals what must be kept and not read by who only has the database: passwords of documents."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken


class Seal:
    """AES-128-CBC with HMAC-SHA256 (Fernet), by a key in a file of its own, readable by its owner only.

    A backup of the database alone, or a database server of somebody else, tells no password.
    """

    def __init__(self, path: Path) -> None:
        self._fernet = Fernet(_key(path))

    def close(self, text: str) -> bytes:
        return self._fernet.encrypt(text.encode())

    def open(self, sealed: bytes) -> str | None:
        """None when another key has sealed it: then the password must be given again."""
        try:
            return self._fernet.decrypt(sealed).decode()
        except InvalidToken:
            return None


def _key(path: Path) -> bytes:
    """Read, or made at the first start; written beside and linked, so that a crash leaves no half of it."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    beside = path.with_suffix(".partial")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(Fernet.generate_key())
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    return path.read_bytes()
