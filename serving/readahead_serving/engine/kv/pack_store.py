"""The folder of packs: what each is made from, and its KV where it was built.

    packs/<pack id>/source.json     written by the API process
    packs/<pack id>/<version>/      written by the engine process: see `pack_files`

The version names identity and tokens, so that KV of another model is another folder and never taken for this one's.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

_PACK_ID = re.compile(r"pack_[0-9a-f]{32}")
_SOURCE = "source.json"


class PackStore:
    """Files of packs under one folder. All calls block: make them in a thread.

    Args:
        root: The folder; made when first needed.
        cap_bytes: Disk that all packs together may take.
    """

    def __init__(self, root: Path, cap_bytes: int) -> None:
        self.root = root
        self.cap_bytes = cap_bytes

    def folder(self, pack_id: str) -> Path:
        assert _PACK_ID.fullmatch(pack_id), pack_id
        return self.root / pack_id

    def version_folder(self, pack_id: str, version: str) -> Path:
        return self.folder(pack_id) / version

    def save_source(self, pack_id: str, data: bytes) -> None:
        """Writes what a pack is made from, whole or not at all.

        Raises:
            OSError: The disk is full, or refuses.
        """
        folder = self.folder(pack_id)
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".{_SOURCE}.{os.getpid()}.partial"
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(folder / _SOURCE)
        except OSError:
            beside.unlink(missing_ok=True)
            raise

    def sources(self) -> dict[str, bytes]:
        """Every source there is, by pack id. What a crash has left half written is cleared away."""
        found = {}
        for folder in self.root.iterdir() if self.root.is_dir() else ():
            if not _PACK_ID.fullmatch(folder.name):
                continue
            for partial in folder.glob(".*.partial"):
                _remove(partial)
            with contextlib.suppress(OSError):
                found[folder.name] = (folder / _SOURCE).read_bytes()
        return found

    def remove(self, pack_id: str) -> None:
        """Deletes everything of a pack; proves it gone."""
        folder = self.folder(pack_id)
        if folder.exists():
            shutil.rmtree(folder)

    def remove_versions(self, pack_id: str, *, but: str | None = None) -> None:
        """Deletes a pack's KV, except one version's, and keeps its source."""
        folder = self.folder(pack_id)
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_dir() and entry.name != but:
                shutil.rmtree(entry)

    def used_bytes(self) -> int:
        """Bytes that all files of all packs take."""
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file()) if self.root.is_dir() else 0

    def has_room(self, nbytes: int) -> bool:
        """Whether `nbytes` more stay within the cap."""
        return self.used_bytes() + nbytes <= self.cap_bytes

    def touch(self, pack_id: str) -> None:
        """Remembers over a restart that a pack was used now."""
        with contextlib.suppress(OSError):
            os.utime(self.folder(pack_id) / _SOURCE)

    def used_at(self, pack_id: str) -> float:
        """Unix time of the last `touch`; 0 where nothing is kept."""
        try:
            return (self.folder(pack_id) / _SOURCE).stat().st_mtime
        except OSError:
            return 0.0


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
