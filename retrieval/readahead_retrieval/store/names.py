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
    if any(unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"} for c in name):
        raise InvalidName(f"The {kind}'s name {name!r} holds control characters: remove them.")
    if not any(unicodedata.category(c)[0] in "LNPS" for c in name):
        raise InvalidName(f"The {kind}'s name {name!r} holds nothing that can be seen: use letters or digits.")
    return name


def clean_kb_name(name: str) -> str:
    """As `clean_name`; the name is the end of a model's name (`kb/<name>`), where a slash at an end gets lost.

    Raises:
        InvalidName: as `clean_name`, and for a slash at an end.
    """
    name = clean_name(name, "knowledge base")
    if name != name.strip("/"):
        raise InvalidName(f"The knowledge base's name {name!r} begins or ends with a slash: leave it out.")
    return name


def clean_file_name(name: str) -> str:
    """As `clean_name`, without the folders that some clients send along."""
    return clean_name(name.replace("\\", "/").rsplit("/", 1)[-1], "file")


def new_id(prefix: str) -> str:
    return f"{prefix}{secrets.token_hex(12)}"
