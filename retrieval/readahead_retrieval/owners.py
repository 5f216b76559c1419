"""Whose passage each id of an index is: an id alone would not tell a passage from a later one under the same id."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Marks = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Owners:
    """Shapes (n,) both."""

    ids: Ids
    """Of passages, ascending, each once."""
    marks: Marks
    """Of each one's document: 64 bits of a hash of its id, which is never given twice."""

    def contradicts(self, others: Owners) -> bool:
        """Whether an id that both hold is another document's there."""
        _, own, other = np.intersect1d(self.ids, others.ids, assume_unique=True, return_indices=True)
        return not np.array_equal(self.marks[own], others.marks[other])

    def equals(self, others: Owners) -> bool:
        return np.array_equal(self.ids, others.ids) and np.array_equal(self.marks, others.marks)

    def without(self, ids: Iterable[int]) -> Owners:
        kept = ~np.isin(self.ids, np.fromiter(ids, dtype=np.int64))
        return Owners(self.ids[kept], self.marks[kept])


def joined(parts: Iterable[Owners]) -> Owners:
    """All of these, each of which may hold its ids in any order."""
    listed = [Owners(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)), *parts]
    ids = np.concatenate([part.ids for part in listed])
    marks = np.concatenate([part.marks for part in listed])
    order = np.argsort(ids, kind="stable")  # quick where they ascend already
    return Owners(ids[order], marks[order])


def owners_of(pairs: Iterable[tuple[int, str]]) -> Owners:
    """Of passages' and their documents' ids, in the order given."""
    listed = list(pairs)
    ids = np.fromiter((passage for passage, _ in listed), dtype=np.int64, count=len(listed))
    return Owners(ids, np.fromiter((_mark(document) for _, document in listed), dtype=np.uint64, count=len(listed)))


@lru_cache(maxsize=4096)
def _mark(document_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(document_id.encode(), digest_size=8).digest(), "little")
