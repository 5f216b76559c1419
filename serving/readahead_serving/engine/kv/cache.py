"""The KV of all sequences: what each takes over, what it holds of its own, and what stays when it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from readahead_serving.engine.kv.pack_table import PackReading, PackTable
from readahead_serving.engine.kv.pool import BlockPool, KVPoolError
from readahead_serving.engine.kv.prefix_tree import Match, PrefixTree
from readahead_serving.engine.sequence import Sequence


class BlockCopy(NamedTuple):
    """A block whose content must be copied before the step that reads it."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class _Reuse:
    """What a sequence could take over now."""

    pack: PackReading | None
    root_key: bytes
    match: Match
    tokens: int
    """Leading tokens that need not be computed."""


@dataclass(slots=True)
class ReuseCounts:
    """Tokens taken over instead of computed, since start."""

    prefix_tokens: int = 0
    """Prompt tokens from the prefix tree."""
    pack_tokens: int = 0
    """Prompt tokens read in a pack."""
    resumed_tokens: int = 0
    """Tokens that preempted sequences found again: their own work, so no hits."""


class KVCache:
    """Serves the scheduler from the pool, the prefix tree and the packs.

    Of a sequence's tokens the first may lie in a pack, the next in blocks of the tree that others read too, the rest in
    blocks of its own. Full blocks move to the tree as soon as they are computed.

    Args:
        pool: All blocks there are.
        tree: Keeps blocks for reuse; None keeps none.
    """

    def __init__(self, pool: BlockPool, tree: PrefixTree | None = None) -> None:
        self.pool = pool
        self.packs = PackTable()
        self.counts = ReuseCounts()
        self._tree = tree

    @property
    def num_available(self) -> int:
        """Blocks that are free or can be made so at once."""
        return self.pool.num_free + self._num_idle

    @property
    def tokens_used(self) -> int:
        """Tokens that the blocks of living sequences can hold."""
        return (self.pool.num_blocks - self.num_available) * self.pool.block_tokens

    @property
    def tokens_cached(self) -> int:
        """Tokens that idle blocks can hold."""
        return self._num_idle * self.pool.block_tokens

    @property
    def evictions(self) -> int:
        return self._tree.evictions if self._tree is not None else 0

    @property
    def _num_idle(self) -> int:
        return self._tree.num_idle if self._tree is not None else 0

    def reusable_tokens(self, sequence: Sequence) -> int:
        """Leading tokens that the sequence would take over if it started now."""
        return self._reuse(sequence).tokens

    def blocks_needed(self, sequence: Sequence) -> int:
        """Of the blocks available, how many the sequence takes if it starts now."""
        reuse = self._reuse(sequence)
        nodes = reuse.match.nodes
        own = sequence.num_tokens + len(sequence.draft) - (reuse.pack.num_tokens if reuse.pack is not None else 0)
        return self.pool.blocks_for(own) - len(nodes) + sum(node.readers == 0 for node in nodes)

    def _reuse(self, sequence: Sequence) -> _Reuse:
        tokens, salt = sequence.token_ids, sequence.request.salt
        if sequence.wants_prompt_told:  # each of its tokens must go through the model
            return self._reuse_after(None, salt, tokens[:1])
        pack = self.packs.longest(salt, tokens)
        found = self._reuse_after(pack, salt, tokens)
        if pack is None or pack.is_whole:
            return found
        # a part of a pack is worth reading only where no earlier request has left more
        plain = self._reuse_after(None, salt, tokens)
        return found if found.tokens > plain.tokens else plain

    def _reuse_after(self, pack: PackReading | None, salt: str, tokens: list[int]) -> _Reuse:
        start = pack.num_tokens if pack is not None else 0
        if self._tree is None:
            return _Reuse(pack, b"", Match(), start)
        root_key = self._tree.root_key(salt, pack.key if pack is not None else b"")
        match = self._tree.match(root_key, tokens[start:-1])  # one token at least is computed
        reused = start + len(match.nodes) * self.pool.block_tokens + match.copied
        return _Reuse(pack, root_key, match, reused)

    def start(self, sequence: Sequence) -> list[BlockCopy]:
        """Gives a sequence all that it can take over and blocks for the rest of its tokens.

        Call only if `blocks_needed` are available.

        Returns:
            The copies to make before its next step; make them in the order in which sequences were started.
        """
        assert not sequence.blocks
        reuse = self._reuse(sequence)
        sequence.pack, sequence.root_key = reuse.pack, reuse.root_key
        if reuse.pack is not None:
            self.packs.acquire(reuse.pack.pack)
        copies = self._take_over(sequence, reuse.match)
        took = self.grow(sequence)
        assert took, "the caller has counted the blocks"
        sequence.num_computed = reuse.tokens
        self._count(sequence, reuse)
        return [BlockCopy(source, sequence.blocks[len(sequence.nodes)]) for source in copies]

    def _take_over(self, sequence: Sequence, match: Match) -> list[int]:
        if self._tree is None:
            return []
        self._tree.acquire(match.nodes)
        sequence.nodes = list(match.nodes)
        sequence.blocks = [node.block for node in match.nodes]
        if match.source is None:
            return []
        self._tree.touch(match.source)
        return [match.source.block]

    def _count(self, sequence: Sequence, reuse: _Reuse) -> None:
        if sequence.num_cached is not None:  # it had started before
            self.counts.resumed_tokens += reuse.tokens
            return
        sequence.num_cached = min(reuse.tokens, sequence.num_prompt)
        in_pack = sequence.own_start
        self.counts.pack_tokens += in_pack
        self.counts.prefix_tokens += sequence.num_cached - in_pack
        sequence.prompt_computed = sequence.num_cached

    def grow(self, sequence: Sequence) -> bool:
        """Gives a sequence blocks for all its tokens and its draft; none and False if too few are available."""
        own = sequence.num_tokens + len(sequence.draft) - sequence.own_start
        missing = self.pool.blocks_for(own) - len(sequence.blocks)
        if missing > self.num_available:
            return False
        if self._tree is not None and missing > self.pool.num_free:
            self._tree.evict(missing - self.pool.num_free)
        return self.pool.extend(sequence.blocks, own)

    def publish(self, sequence: Sequence) -> None:
        """Moves the full blocks that a running sequence has computed to the tree."""
        if self._tree is None:
            return
        size, start = self.pool.block_tokens, sequence.own_start
        for place in range(len(sequence.nodes), (sequence.num_computed - start) // size):
            tokens = sequence.token_ids[start + place * size : start + (place + 1) * size]
            node = self._tree.publish(sequence.root_key, sequence.nodes, tokens, sequence.blocks[place])
            sequence.nodes.append(node)
            sequence.blocks[place] = node.block

    def release(self, sequence: Sequence, *, keep: bool = True) -> None:
        """Takes all KV of a sequence back; what it computed stays for reuse, if it is to be kept.

        A second release does nothing. `keep` is False where the content is worth nothing, as after an error.
        """
        if self._tree is not None and sequence.blocks:
            self._release_to(self._tree, sequence, keep)
        self.pool.release(sequence.blocks)
        if sequence.pack is not None:
            self.packs.release(sequence.pack.pack)
            sequence.pack = None
        sequence.num_computed = 0

    def _release_to(self, tree: PrefixTree, sequence: Sequence, keep: bool) -> None:
        if keep:
            self.publish(sequence)
        full, start = len(sequence.nodes), sequence.own_start + len(sequence.nodes) * self.pool.block_tokens
        own = sequence.blocks[full:]
        if keep and own and start < sequence.num_computed:
            tree.publish_tail(
                sequence.root_key, sequence.nodes, sequence.token_ids[start : sequence.num_computed], own.pop(0)
            )
        tree.release(sequence.nodes)
        if not keep:
            tree.forget(sequence.nodes)
        sequence.nodes = []
        sequence.blocks[:] = own

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        """Proves that used, cached and free blocks together are all blocks, and that every reader is alive.

        Raises:
            KVPoolError: KV is lost, or counted wrongly.
        """
        living = list(sequences)
        cached = list(self._tree.blocks()) if self._tree is not None else []
        self.pool.check_integrity([*(sequence.blocks[len(sequence.nodes) :] for sequence in living), cached])
        readers = Counter(node for sequence in living for node in sequence.nodes)
        idle = len(cached) - len(readers)
        if any(node.readers != count for node, count in readers.items()) or self._num_idle != idle:
            raise KVPoolError(f"{len(readers)} blocks are read and {len(cached)} cached, but {self._num_idle} idle")
        packs = Counter(sequence.pack.pack for sequence in living if sequence.pack is not None)
        for pack in self.packs:
            if pack.readers != packs.pop(pack, 0):
                raise KVPoolError(f"pack {pack.pack_id!r} counts {pack.readers} readers")
        if packs:
            raise KVPoolError("a sequence reads a pack that has gone")
