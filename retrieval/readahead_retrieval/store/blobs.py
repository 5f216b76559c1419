"""Uploaded bytes on disk: `files/<tenant's folder>/<file id>`."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.store.full_disk import disk_errors


@dataclass(frozen=True, slots=True)
class SavedBytes:
    size: int
    sha256: str


class Blobs:
    """Writes beside and renames: a file that is there is whole."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def path(self, tenant: str, file_id: str) -> Path:
        # Hashed: a tenant's name may hold what a path must not.
        return self._folder / hashlib.sha256(tenant.encode()).hexdigest()[:16] / file_id

    async def save(self, tenant: str, file_id: str, data: AsyncIterator[bytes]) -> SavedBytes:
        """Hashes while it streams; holds one block in memory.

        Raises:
            DocumentError: `too_large`; what came is deleted.
            StorageFull: the same.
        """
        path = self.path(tenant, file_id)
        partial = path.with_suffix(".partial")
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        try:
            with disk_errors():
                saved = await self._write(partial, data)
                await asyncio.to_thread(partial.replace, path)
        except BaseException:  # a client that goes away cancels: its half file must not stay either
            partial.unlink(missing_ok=True)
            raise
        return saved

    async def _write(self, partial: Path, data: AsyncIterator[bytes]) -> SavedBytes:
        digest, size = hashlib.sha256(), 0
        with partial.open("wb") as file:
            async for block in data:
                size += len(block)
                if size > self._max_bytes:
                    raise DocumentError(
                        "too_large",
                        f"The file is larger than {self._max_bytes} bytes: split it, or raise max_file_bytes.",
                    )
                digest.update(block)
                await asyncio.to_thread(file.write, block)
            await asyncio.to_thread(_to_disk, file)
        return SavedBytes(size, digest.hexdigest())

    async def share(self, tenant: str, file_id: str, twin: str) -> None:
        """Has a saved file take no room beside another of the same bytes, which both keep until the last is deleted.

        The file system counts the names of the bytes. Where it cannot (FAT, some network shares), or the twin is
        deleted meanwhile, the copy stays.
        """
        path = self.path(tenant, file_id)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(_link, self.path(tenant, twin), path)

    async def delete(self, tenant: str, file_id: str) -> None:
        await asyncio.to_thread(self.path(tenant, file_id).unlink, missing_ok=True)


def _link(twin: Path, path: Path) -> None:
    beside = path.with_suffix(".partial")
    beside.hardlink_to(twin)
    beside.replace(path)
    beside.unlink(missing_ok=True)  # both were one already: the system then leaves either name


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
