"""How far a model's arrival has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class DownloadProgress:
    """One report; a model's reports go through the stages in order."""

    model: str
    stage: Literal["downloading", "checking", "done"]
    done_bytes: int
    total_bytes: int


ProgressCallback = Callable[[DownloadProgress], None]
SizeCallback = Callable[[int], None]
"""Takes the bytes that have arrived so far."""


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder that others may be writing to."""
    return sum(_sizes(folder))


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        try:
            yield path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # renamed or removed meanwhile
            continue
