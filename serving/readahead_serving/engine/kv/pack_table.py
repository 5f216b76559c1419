"""The packs that lie in memory, and who reads how much of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.prefix_tree import digest, token_bytes

MIN_PART = 128
"""Tokens that a prompt must share with a pack to read a part of it: for fewer, reading costs more than computing."""


@dataclass(eq=False, slots=True)
class AttachedPack:
    """A pack in use. Its readers keep it in memory even after it is detached."""

    pack_id: str
    salt: str
    kv: PackKV
    key: bytes
    """Digest of its tokens: blocks that follow it in the prefix tree stay good when it is loaded again."""
    readers: int = 0


@dataclass(frozen=True, slots=True)
class PackReading:
    """The beginning of a pack that a prompt shares: all of it, or less where the prompt parts from it or ends."""

    pack: AttachedPack
    num_tokens: int

    @property
    def key(self) -> bytes:
        """Digest of the tokens that are read."""
        return self.pack.key if self.is_whole else digest(token_bytes(self.pack.kv.token_ids[: self.num_tokens]))

    @property
    def is_whole(self) -> bool:
        return self.num_tokens == self.pack.kv.num_tokens


class PackTable:
    """Packs by id. Each costs its bytes once, however many read it."""

    def __init__(self) -> None:
        self._packs: dict[str, AttachedPack] = {}
        self._leaving: list[AttachedPack] = []  # detached, and still read

    def attach(self, pack_id: str, salt: str, kv: PackKV) -> None:
        """Offers a pack to all prompts of the salt that begin with its tokens. The id must be free."""
        assert pack_id not in self._packs, pack_id
        self._packs[pack_id] = AttachedPack(pack_id, salt, kv, digest(token_bytes(kv.token_ids)))

    def detach(self, pack_id: str) -> bool:
        """Offers a pack no longer.

        Returns:
            Whether its memory is given up now; otherwise it is when its last reader ends.
        """
        pack = self._packs.pop(pack_id)
        if pack.readers:
            self._leaving.append(pack)
        return not pack.readers

    def longest(self, salt: str, tokens: Sequence[int]) -> PackReading | None:
        """The longest run of `tokens` that a pack of the salt begins with, less the last: that is always computed.

        Of packs that share as much the one attached first is taken, so that all who ask read the same one.
        """
        known = tokens[:-1]
        readings = (
            PackReading(pack, shared)
            for pack in self._packs.values()
            if pack.salt == salt
            and (shared := common_prefix(pack.kv.token_ids, known)) >= min(MIN_PART, pack.kv.num_tokens, len(known))
        )
        return max(readings, key=lambda one: one.num_tokens, default=None)

    def acquire(self, pack: AttachedPack) -> None:
        pack.readers += 1

    def release(self, pack: AttachedPack) -> None:
        assert pack.readers > 0
        pack.readers -= 1
        if not pack.readers and pack in self._leaving:
            self._leaving.remove(pack)

    def __contains__(self, pack_id: str) -> bool:
        return pack_id in self._packs

    def __iter__(self) -> Iterator[AttachedPack]:
        """All packs that take memory, those that are leaving included."""
        yield from self._packs.values()
        yield from self._leaving

    @property
    def nbytes(self) -> int:
        return sum(pack.kv.nbytes for pack in self)


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    low, high = 0, min(len(first), len(second))
    if not high or first[0] != second[0]:
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
