"""A generation: one folder with the dense and the lexical index of a knowledge base, made once, never changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import IndexDamaged
from readahead_retrieval.index import manifest as manifests
from readahead_retrieval.index.analysis import VERSION as ANALYSIS_VERSION
from readahead_retrieval.index.dense import DenseWriter, LayeredIndex
from readahead_retrieval.index.lexical import LexicalIndex, LexicalWriter
from readahead_retrieval.index.manifest import Manifest
from readahead_retrieval.owners import Marks, Owners, joined, owners_of

_LEXICAL = "lexical"
_MARKS = "owners.u64"
"""The owners' marks in the order of the ids, which the dense index has."""
PARTIAL_SUFFIX = ".partial"


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk as the indexes take it."""

    chunk_id: int
    document_id: str
    text: str
    """With its heading."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Open for reading. Whoever holds it may search it, also after a newer one was published."""

    folder: Path
    manifest: Manifest
    dense: LayeredIndex
    lexical: LexicalIndex
    marks: Marks
    stamp: manifests.Stamp
    """Of the files as they were verified; see `untouched`."""
    sha256: str
    """Of the manifest, by which it is opened."""

    @classmethod
    def open(cls, folder: Path, manifest_sha256: str) -> Generation:
        """Verifies every byte first. Blocks.

        Raises:
            IndexDamaged: rather than opening a part of it.
        """
        manifest = manifests.verified(folder, manifest_sha256)
        try:
            stamp = manifests.stamp(folder, manifest)
            dense, lexical = LayeredIndex.read(folder), LexicalIndex(folder / _LEXICAL)
            marks = np.fromfile(folder / _MARKS, dtype="<u8").astype(np.uint64)
            opened = cls(folder, manifest, dense, lexical, marks, stamp, manifest_sha256)
        except (RuntimeError, ValueError, OSError) as error:  # FAISS and tantivy raise these for a broken file
            raise IndexDamaged(f"{folder} does not open: {error}.") from error
        if not manifest.chunks == dense.count == lexical.count == len(marks):
            counts = f"{dense.count} vectors, {lexical.count} entries, {len(marks)} marks"
            raise IndexDamaged(f"{folder}: {manifest.chunks} chunks, {counts}.")
        return opened

    def owners(self) -> Owners:
        """Of every passage that a search may find."""
        return Owners(self.dense.ids, self.marks)

    def untouched(self) -> bool:
        """Whether every file still is the one that was verified. Files are mapped: a change would be answered from."""
        try:
            return manifests.stamp(self.folder, self.manifest) == self.stamp
        except OSError:
            return False

    def extends_to(self, kb_id: str, embedding_model: str, added: int, removed: int) -> bool:
        """Whether the next generation is better laid over this one than made whole."""
        same = (self.manifest.kb_id, self.manifest.embedding_model) == (kb_id, embedding_model)
        return same and self.dense.takes(added, removed)


class GenerationWriter:
    """Writes beside, as `<name>.partial`; `publish` renames. Every method blocks: call them in a thread.

    Args:
        base: A generation that the new one holds too, but for what is removed; its files are shared, not copied.
    """

    def __init__(
        self, folder: Path, kb_id: str, embedding_model: str, dimension: int, base: Generation | None = None
    ) -> None:
        self.folder = folder
        self._partial = folder.with_name(folder.name + PARTIAL_SUFFIX)
        shutil.rmtree(self._partial, ignore_errors=True)
        self._partial.mkdir(parents=True)
        self._kb_id = kb_id
        self._embedding_model = embedding_model
        self.dimension = dimension
        self._owners = [base.owners()] if base else []
        self._chunks = base.manifest.chunks if base else 0
        self._dense = DenseWriter(self._partial, dimension, base.dense if base else None)
        self._lexical = LexicalWriter(self._partial / _LEXICAL, base.folder / _LEXICAL if base else None)

    def add(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        self._dense.add([e.chunk_id for e in entries], vectors)
        for entry in entries:
            self._lexical.add(entry.chunk_id, entry.document_id, entry.text)
        self._owners.append(owners_of((e.chunk_id, e.document_id) for e in entries))
        self._chunks += len(entries)

    def remove(self, chunk_ids: Sequence[int]) -> None:
        """Of the base's; each at most once."""
        self._dense.remove(chunk_ids)
        self._lexical.remove(chunk_ids)
        self._owners = [part.without(chunk_ids) for part in self._owners]
        self._chunks -= len(chunk_ids)

    def publish(self) -> str:
        """Makes the folder appear, whole. Returns the manifest's SHA-256."""
        self._lexical.finish()
        self._dense.finish()
        self._write_marks()
        sha256 = manifests.write(self._partial, self._manifest())
        self._partial.rename(self.folder)
        _sync_folder(self.folder.parent)
        return sha256

    def discard(self) -> None:
        shutil.rmtree(self._partial, ignore_errors=True)

    def _write_marks(self) -> None:
        with (self._partial / _MARKS).open("wb") as file:
            file.write(joined(self._owners).marks.astype("<u8").tobytes())
            file.flush()
            os.fsync(file.fileno())

    def _manifest(self) -> Manifest:
        return Manifest(
            format=manifests.FORMAT,
            name=self.folder.name,
            kb_id=self._kb_id,
            embedding_model=self._embedding_model,
            dimension=self.dimension,
            normalised=True,
            analysis=ANALYSIS_VERSION,
            chunks=self._chunks,
            files=manifests.sum_files(self._partial),
        )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
