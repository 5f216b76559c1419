"""A page's words as the numbers that they come in: a long file has a million, most of which nobody looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from readahead_retrieval.types import Box, Word

FIELDS = 6


class FlatWords(Sequence[Word]):
    """Words made when they are asked for, from six numbers each: start, end, x0, y0, x1, y1."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Sequence[float]) -> None:
        assert len(numbers) % FIELDS == 0
        self.numbers = numbers

    def within(self, start: int, end: int) -> list[Word]:
        """Those of which a part stands in `text[start:end]`; no other is made."""
        bounds = zip(self.numbers[::FIELDS], self.numbers[1::FIELDS], strict=True)
        return [self[i] for i, (left, right) in enumerate(bounds) if right > start and left < end]

    def __len__(self) -> int:
        return len(self.numbers) // FIELDS

    @overload
    def __getitem__(self, index: int) -> Word: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Word]: ...
    def __getitem__(self, index: int | slice) -> Word | Sequence[Word]:
        if isinstance(index, slice):
            return tuple(self)[index]
        at = range(len(self))[index] * FIELDS
        start, end, *box = self.numbers[at : at + FIELDS]
        return Word(int(start), int(end), Box(*box))

    def __iter__(self) -> Iterator[Word]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))
