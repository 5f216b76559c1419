"""The secret that signs the browser's session cookie: `home`/web/secret, readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def storage_folder(home: Path) -> Path:
    """Where sessions are kept, made with a narrow mode: they hold keys."""
    folder = home / "web"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def storage_secret(home: Path) -> str:
    """Reads the secret, or makes it on the first start."""
    path = storage_folder(home) / "secret"
    if path.exists() and (kept := path.read_text("utf-8").strip()):
        return kept
    made, beside = secrets.token_urlsafe(32), path.with_suffix(".tmp")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(made)
    beside.replace(path)
    return made
