"""Vectors in rows under ascending ids: exact and flat while they are few, in inverted lists of bytes when many.

Inverted lists were chosen over HNSW, which answers as fast, takes some ten times as long to build and half as much
memory again, and cannot forget a vector; and over product quantisation, whose codes are too coarse without the vectors
beside them. Figures: docs/benchmarks.md.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt

from readahead_retrieval.embedding import Vectors

# FAISS's own wrapper gives these keyword arguments, and keeps alive what they are given; its type stubs know neither.
_SelectorBitmap: Any = faiss.IDSelectorBitmap
_Parameters: Any = faiss.SearchParameters
_ParametersIvf: Any = faiss.SearchParametersIVF

Ids = npt.NDArray[np.int64]

FLAT_LIMIT = 30_000
"""Vectors that are compared one by one: some 5 ms on one thread at 384 numbers each."""
PROBED_SHARE = 20
"""One list in so many is looked into."""
TRAINED_ON = 48
"""Vectors for each list that its centre is learnt from."""
EXACT_ROWS = 4_000
"""A search within so few rows compares each of them."""
ADD_BATCH = 20_000


class Part:
    """Read-only; safe to search from several threads. Files are mapped, not read: opening costs nothing by size."""

    def __init__(self, path: Path, index: faiss.Index, ids: Ids) -> None:
        self._path = path
        self._index = index
        self._lists = faiss.try_extract_index_ivf(index)
        if self._lists is not None:
            self._lists.make_direct_map()
        self.ids = ids

    @classmethod
    def is_in(cls, folder: Path, name: str) -> bool:
        return (folder / f"{name}.faiss").exists()

    @classmethod
    def read(cls, folder: Path, name: str) -> Part:
        path = folder / f"{name}.faiss"
        # A mapped index aborts the process when it is added to or removed from: nothing here does.
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        return cls(path, index, np.fromfile(path.with_suffix(".ids"), dtype="<i8").astype(np.int64))

    @property
    def count(self) -> int:
        return int(self._index.ntotal)

    def rows(self, ids: Ids) -> Ids:
        """Of those of the ids that are here, ascending."""
        return np.flatnonzero(np.isin(self.ids, ids)).astype(np.int64)

    def row_of_each(self, ids: Ids) -> Ids:
        """In the order of the ids, which must be here."""
        return np.searchsorted(self.ids, ids).astype(np.int64)

    def vectors(self, rows: Ids) -> Vectors:
        """Shape (len(rows), dimension); of inverted lists about, each number within a 250th of its range."""
        if not len(rows):
            return np.empty((0, self._index.d), dtype=np.float32)
        found: Vectors = self._index.reconstruct_batch(rows)
        return found

    def search(self, vector: Vectors, limit: int, hidden: Ids | None, only: Ids | None) -> Iterator[tuple[int, float]]:
        """Ids and cosines, best first, without the rows in `hidden`, or among the rows in `only`."""
        if only is not None and len(only) <= EXACT_ROWS:
            return self._exact(vector, limit, only)
        return self._indexed(vector, limit, hidden, only)

    def link(self, folder: Path, name: str) -> None:
        """Makes the same files appear in another folder; they never change, so they may be one file on disk."""
        for suffix in (".faiss", ".ids"):
            link_or_copy(self._path.with_suffix(suffix), folder / f"{name}{suffix}")

    def _exact(self, vector: Vectors, limit: int, rows: Ids) -> Iterator[tuple[int, float]]:
        scores = self.vectors(rows) @ vector
        best = np.argsort(-scores, kind="stable")[:limit]
        return zip(self.ids[rows[best]].tolist(), scores[best].tolist(), strict=True)

    def _indexed(
        self, vector: Vectors, limit: int, hidden: Ids | None, only: Ids | None
    ) -> Iterator[tuple[int, float]]:
        limit = min(limit, self.count)
        if limit == 0:
            return iter(())
        scores, rows = self._index.search(vector[None, :], limit, params=self._parameters(hidden, only))
        found = rows[0] >= 0
        return zip(self.ids[rows[0][found]].tolist(), scores[0][found].tolist(), strict=True)

    def _parameters(self, hidden: Ids | None, only: Ids | None) -> Any:
        selector = None
        if only is not None:
            selector = _SelectorBitmap(_bits(self.count, only))
        elif hidden is not None and len(hidden):
            selector = _SelectorBitmap(_bits(self.count, hidden, inverted=True))
        if self._lists is None:
            return _Parameters(sel=selector)
        return _ParametersIvf(sel=selector, nprobe=self._probes(only))

    def _probes(self, only: Ids | None) -> int:
        """More lists where fewer of their members count."""
        assert self._lists is not None
        lists = int(self._lists.nlist)
        thinned = 1 if only is None else self.count / len(only)
        return min(lists, round(max(8, lists / PROBED_SHARE) * thinned))


class PartWriter:
    """Takes vectors in any order of ids and writes a part; while they come they lie on disk, not in memory."""

    def __init__(self, folder: Path, name: str, dimension: int) -> None:
        self._path = folder / f"{name}.faiss"
        self._raw = folder / f"{name}.raw"
        self._dimension = dimension
        self._ids: list[Ids] = []

    @property
    def count(self) -> int:
        return sum(map(len, self._ids))

    def add(self, ids: Ids, vectors: Vectors) -> None:
        assert vectors.shape == (len(ids), self._dimension), "one row of the index's width for each id"
        if len(ids):
            with self._raw.open("ab") as file:
                file.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
            self._ids.append(ids)

    def finish(self) -> None:
        ids = np.concatenate([np.empty(0, dtype=np.int64), *self._ids])
        order = np.argsort(ids)
        index = self._built(order)
        faiss.write_index(index, str(self._path))
        ids[order].astype("<i8").tofile(self._path.with_suffix(".ids"))
        for suffix in (".faiss", ".ids"):
            _sync(self._path.with_suffix(suffix))
        self._raw.unlink(missing_ok=True)

    def _built(self, order: Ids) -> faiss.Index:
        count = len(order)
        if count == 0:
            return faiss.IndexFlatIP(self._dimension)
        raw = np.memmap(self._raw, dtype="<f4", mode="r", shape=(count, self._dimension))
        index = faiss.IndexFlatIP(self._dimension) if count <= FLAT_LIMIT else _trained(raw)
        for start in range(0, count, ADD_BATCH):
            index.add(np.asarray(raw[order[start : start + ADD_BATCH]], dtype=np.float32))
        return index


def _trained(raw: Vectors) -> faiss.Index:
    """Inverted lists of 8-bit residuals, their centres learnt from a sample of the vectors."""
    count, dimension = raw.shape
    lists = 1 << round(np.log2(2 * sqrt(count)))
    sample = np.sort(np.random.default_rng(7).choice(count, min(count, TRAINED_ON * lists), replace=False))
    index: Any = faiss.index_factory(dimension, f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    if faiss.get_num_gpus():  # learning the centres is most of the work of a build
        index.clustering_index = faiss.index_cpu_to_all_gpus(faiss.IndexFlatIP(dimension))
    index.train(np.asarray(raw[sample], dtype=np.float32))
    trained: faiss.Index = index
    return trained


def link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copyfile(source, target)


def _bits(count: int, rows: Ids, *, inverted: bool = False) -> npt.NDArray[np.uint8]:
    chosen = np.full(count, inverted, dtype=bool)
    chosen[rows] = not inverted
    return np.packbits(chosen, bitorder="little")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
