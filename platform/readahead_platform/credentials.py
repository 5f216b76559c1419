"""The key that this machine's command line uses: `home`/credentials.json, readable by its owner only."""

from __future__ import annotations

import json
import os
from pathlib import Path

from readahead_platform.errors import SettingsError


def credentials_path(home: Path) -> Path:
    return home / "credentials.json"


def read_credentials(home: Path) -> str | None:
    """The stored key, or None when there is none yet."""
    path = credentials_path(home)
    try:
        key = json.loads(path.read_text(encoding="utf-8"))["api_key"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise SettingsError(f"{path} belongs to another user; set READAHEAD_API_KEY to a key of yours.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"{path} is damaged; remove it, and the next `readahead up` writes a new key.") from error
    return str(key)


def write_credentials(home: Path, api_key: str) -> None:
    """Writes beside and renames, with the narrow mode from the first byte."""
    path = credentials_path(home)
    beside = path.with_suffix(".tmp")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"api_key": api_key}, file)
    beside.replace(path)
