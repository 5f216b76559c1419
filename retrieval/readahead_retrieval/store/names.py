"""Names that people give, in the one form in which they are kept and compared."""

from __future__ import annotations

import secrets
import unicodedata

from readahead_retrieval.errors import InvalidName

MAX_NAME_CHARS = 255


def clean_name(name: str, kind: str) -> str:
    """NFC, so that a name typed on macOS (NFD) is the same name everywhere.

    Raises:
        InvalidName: when it is empty, too long or holds control characters.
    """
    name = unicodedata.normalize("NFC", name).strip()
    if not name:
        raise InvalidName(f"The {kind}'s name is empty: give it one.")
    if len(name) > MAX_NAME_CHARS:
        raise InvalidName(f"The {kind}'s name has {len(name)} characters: use at most {MAX_NAME_CHARS}.")
    if any(unicodedata.category(c) in {"Cc", "Cs"} for c in name):
        raise InvalidName(f"The {kind}'s name {name!r} holds control characters: remove them.")
    return name


def clean_file_name(name: str) -> str:
    """As `clean_name`, without the folders that some clients send along."""
    return clean_name(name.replace("\\", "/").rsplit("/", 1)[-1], "file")


def new_id(prefix: str) -> str:
    return f"{prefix}{secrets.token_hex(12)}"
