"""The dense side: nearest vectors by inner product."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.index.part import Ids, Part, PartWriter

MAIN, DELTA, REMOVED = "dense", "delta", "removed.ids"
DELTA_MIN = 2_000
DELTA_SHARE = 4
"""What came since the main part was made may be one part in so many of it, and so may what was removed."""


class Hit(NamedTuple):
    chunk_id: int
    score: float


class LayeredIndex:
    """Unit vectors under stable ids. Read-only once made; safe to search from several threads.

    A large part that stays, a small one with what came since, and the ids of what was removed from both, so that adding
    a document to a million passages writes a file of its own size.
    """

    def __init__(self, main: Part, delta: Part | None, removed: Ids) -> None:
        self.main, self.delta, self.removed = main, delta, removed
        self._parts = [part for part in (main, delta) if part is not None]
        self._hidden = [part.rows(removed) for part in self._parts]

    @classmethod
    def read(cls, folder: Path) -> LayeredIndex:
        """Call it only on files whose checksums hold: FAISS guards against nothing but a short one."""
        delta = Part.read(folder, DELTA) if Part.is_in(folder, DELTA) else None
        removed = _read_ids(folder / REMOVED) if (folder / REMOVED).exists() else np.empty(0, dtype=np.int64)
        return cls(Part.read(folder, MAIN), delta, removed)

    @property
    def ids(self) -> Ids:
        """Of every vector that a search may find, ascending."""
        return np.setdiff1d(np.concatenate([part.ids for part in self._parts]), self.removed)

    @property
    def count(self) -> int:
        return sum(part.count for part in self._parts) - len(self.removed)

    def takes(self, added: int, removed: int) -> bool:
        """Whether so many more changes are better laid over what is there than made part of a new whole."""
        most = max(DELTA_MIN, self.main.count // DELTA_SHARE)
        added += self.delta.count if self.delta is not None else 0
        return added <= most and len(self.removed) + removed <= most

    def search(self, vector: Vectors, limit: int, only: Sequence[int] | None = None) -> list[Hit]:
        """The nearest to `vector`, of shape (dimension,), among all or the ids in `only`.

        Best first; scores are cosines.
        """
        wanted = None if only is None else np.unique(np.asarray(only, dtype=np.int64))
        found: list[Hit] = []
        for part, hidden in zip(self._parts, self._hidden, strict=True):
            rows = None if wanted is None else np.setdiff1d(part.rows(wanted), hidden)
            found += [Hit(*hit) for hit in part.search(vector, limit, hidden if rows is None else None, rows)]
        return sorted(found, key=lambda hit: -hit.score)[:limit]

    def similarities(self, vector: Vectors, ids: Sequence[int]) -> list[float]:
        """Cosine to each of the ids, which must be in the index."""
        wanted: Ids = np.asarray(ids, dtype=np.int64)
        scores = np.empty(len(wanted), dtype=np.float32)
        held = np.zeros(len(wanted), dtype=bool)
        for part in self._parts:
            here = np.isin(wanted, part.ids)
            scores[here] = part.vectors(part.row_of_each(wanted[here])) @ vector
            held |= here
        assert held.all(), "every id asked for is in the index"
        return [float(score) for score in scores]


class DenseWriter:
    """Writes `LayeredIndex`'s files: over those of `base`, or a new main part."""

    def __init__(self, folder: Path, dimension: int, base: LayeredIndex | None) -> None:
        self._folder = folder
        self._base = base
        self._removed: list[int] = []
        self._writer = PartWriter(folder, MAIN if base is None else DELTA, dimension)

    def add(self, ids: Sequence[int], vectors: Vectors) -> None:
        """`vectors` has shape (len(ids), dimension)."""
        self._writer.add(np.asarray(ids, dtype=np.int64), vectors)

    def remove(self, ids: Sequence[int]) -> None:
        assert self._base is not None or not ids, "only what is there can be removed"
        self._removed += ids

    def finish(self) -> None:
        removed: Ids = np.asarray(sorted(self._removed), dtype=np.int64)
        if self._base is not None:
            removed = self._keep(self._base, removed)
        if self._base is None or self._writer.count:
            self._writer.finish()
        if len(removed):
            _write_ids(self._folder / REMOVED, removed)

    def _keep(self, base: LayeredIndex, removed: Ids) -> Ids:
        """Takes over the base's parts; the delta, which is written anew, loses its removed ids for good."""
        removed = np.union1d(base.removed, removed)
        base.main.link(self._folder, MAIN)
        if base.delta is not None:
            kept = np.setdiff1d(base.delta.ids, removed)
            self._writer.add(kept, base.delta.vectors(base.delta.rows(kept)))
        return np.intersect1d(removed, base.main.ids)


def _read_ids(path: Path) -> Ids:
    return np.fromfile(path, dtype="<i8").astype(np.int64)


def _write_ids(path: Path, ids: npt.NDArray[np.int64]) -> None:
    with path.open("wb") as file:
        file.write(ids.astype("<i8").tobytes())
        file.flush()
        os.fsync(file.fileno())
