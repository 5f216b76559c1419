"""What a generation holds, and the checksums that prove it."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from readahead_retrieval.errors import IndexDamaged
from readahead_retrieval.index.analysis import VERSION as ANALYSIS_VERSION

FORMAT = 3
"""2 named no owners of its ids, and may hold deleted texts under ids that were given again."""
FILE_NAME = "manifest.json"
READERS = 4

Stamp = tuple[tuple[int, int, int], ...]


class FileSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    name: str
    kb_id: str
    embedding_model: str
    """Name, revision and prefixes, as `Embedder.model_id` has them."""
    dimension: int
    normalised: bool
    analysis: int
    chunks: int
    """Rows that the database gave: vectors and lexical entries must be as many."""
    files: dict[str, FileSum]
    """By path within the folder."""


def sum_files(folder: Path) -> dict[str, FileSum]:
    """Of every file that an index reads; tantivy's lock files are left out."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.endswith(".lock"))
    return {p.relative_to(folder).as_posix(): _sum(p) for p in paths}


def write(folder: Path, manifest: Manifest) -> str:
    """Returns the manifest's own SHA-256, which the database keeps."""
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    (folder / FILE_NAME).write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def verified(folder: Path, sha256: str) -> Manifest:
    """Reads the manifest and every file that it names.

    Raises:
        IndexDamaged: when anything is missing, or is not to the byte what was published.
    """
    try:
        data = (folder / FILE_NAME).read_bytes()
    except OSError as error:
        raise IndexDamaged(f"{folder} has no readable manifest: {error}.") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise IndexDamaged(f"{folder / FILE_NAME} is not the one that was published.")
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:  # published by another version of this program
        raise IndexDamaged(f"{folder / FILE_NAME} cannot be read: {error}.") from error
    if (manifest.format, manifest.analysis) != (FORMAT, ANALYSIS_VERSION):
        raise IndexDamaged(f"{folder} was made by another version: format {manifest.format}.")
    with ThreadPoolExecutor(READERS) as readers:  # hashing a gigabyte takes a second, and lets go of the interpreter
        for _ in readers.map(lambda item: _check(folder / item[0], item[1]), manifest.files.items()):
            pass
    return manifest


def stamp(folder: Path, manifest: Manifest) -> Stamp:
    """Size, time and place of every file: what no write leaves as it was. Raises OSError where one is missing."""
    found = ((folder / name).stat() for name in manifest.files)
    return tuple((stat.st_size, stat.st_mtime_ns, stat.st_ino) for stat in found)


def _check(path: Path, expected: FileSum) -> None:
    try:
        found = _sum(path)
    except OSError as error:
        raise IndexDamaged(f"{path} cannot be read: {error}.") from error
    if found != expected:
        raise IndexDamaged(f"{path} has changed since it was published.")


def _sum(path: Path) -> FileSum:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return FileSum(file.tell(), digest.hexdigest())
