"""A generation: one folder with the dense and the lexical index of a knowledge base, made once, never changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import IndexDamaged
from readahead_retrieval.index import manifest as manifests
from readahead_retrieval.index.analysis import VERSION as ANALYSIS_VERSION
from readahead_retrieval.index.dense import DenseIndex, FlatIndex
from readahead_retrieval.index.lexical import LexicalIndex, LexicalWriter
from readahead_retrieval.index.manifest import Manifest

_DENSE = "dense.faiss"
_LEXICAL = "lexical"
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

    manifest: Manifest
    dense: DenseIndex
    lexical: LexicalIndex

    @classmethod
    def open(cls, folder: Path, manifest_sha256: str) -> Generation:
        """Verifies every byte first. Blocks.

        Raises:
            IndexDamaged: rather than opening a part of it.
        """
        manifest = manifests.verified(folder, manifest_sha256)
        try:
            opened = cls(manifest, FlatIndex.read(folder / _DENSE), LexicalIndex(folder / _LEXICAL))
        except (RuntimeError, ValueError, OSError) as error:  # FAISS and tantivy raise these for a broken file
            raise IndexDamaged(f"{folder} does not open: {error}.") from error
        if not manifest.chunks == opened.dense.count == opened.lexical.count:
            raise IndexDamaged(
                f"{folder}: {manifest.chunks} chunks, {opened.dense.count} vectors, {opened.lexical.count} entries."
            )
        return opened


class GenerationWriter:
    """Writes beside, as `<name>.partial`; `publish` renames. Every method blocks: call them in a thread."""

    def __init__(self, folder: Path, kb_id: str, embedding_model: str, dimension: int) -> None:
        self.folder = folder
        self._partial = folder.with_name(folder.name + PARTIAL_SUFFIX)
        shutil.rmtree(self._partial, ignore_errors=True)
        self._partial.mkdir(parents=True)
        self._kb_id = kb_id
        self._embedding_model = embedding_model
        self._dimension = dimension
        self._documents: set[str] = set()
        self._chunks = 0
        self._dense = FlatIndex.empty(dimension)
        self._lexical = LexicalWriter(self._partial / _LEXICAL)

    def add(self, entries: Sequence[Entry], vectors: Vectors) -> None:
        self._dense.add([e.chunk_id for e in entries], vectors)
        for entry in entries:
            self._lexical.add(entry.chunk_id, entry.document_id, entry.text)
            self._documents.add(entry.document_id)
        self._chunks += len(entries)

    def publish(self) -> str:
        """Makes the folder appear, whole. Returns the manifest's SHA-256."""
        self._lexical.finish()
        self._dense.write(self._partial / _DENSE)
        sha256 = manifests.write(self._partial, self._manifest())
        self._partial.rename(self.folder)
        _sync_folder(self.folder.parent)
        return sha256

    def discard(self) -> None:
        shutil.rmtree(self._partial, ignore_errors=True)

    def _manifest(self) -> Manifest:
        return Manifest(
            format=manifests.FORMAT,
            name=self.folder.name,
            kb_id=self._kb_id,
            embedding_model=self._embedding_model,
            dimension=self._dimension,
            normalised=True,
            analysis=ANALYSIS_VERSION,
            documents=len(self._documents),
            chunks=self._chunks,
            vectors=self._dense.count,
            entries=self._chunks,
            files=manifests.sum_files(self._partial),
        )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
