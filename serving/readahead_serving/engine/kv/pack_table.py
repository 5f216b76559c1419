"""The packs that lie in memory, and who reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.prefix_tree import digest, token_bytes


@dataclass(eq=False, slots=True)
class AttachedPack:
    """A pack in use. Its readers keep it in memory even after it is detached."""

    pack_id: str
    salt: str
    kv: PackKV
    key: bytes
    """Digest of its tokens: blocks that follow it in the prefix tree stay good when it is loaded again."""
    readers: int = 0


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

    def longest(self, salt: str, tokens: Sequence[int]) -> AttachedPack | None:
        """The longest pack of the salt that `tokens` begin with and go on from: the last token is always computed."""
        fitting = (
            pack
            for pack in self._packs.values()
            if pack.salt == salt and pack.kv.num_tokens < len(tokens) and pack.kv.token_ids[0] == tokens[0]
        )
        for pack in sorted(fitting, key=lambda one: one.kv.num_tokens, reverse=True):
            if tokens[: pack.kv.num_tokens] == pack.kv.token_ids:
                return pack
        return None

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
