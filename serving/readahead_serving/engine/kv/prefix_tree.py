"""Keys and values of earlier requests, found again by their tokens.

A tree of blocks: a path from a root spells the tokens of a prompt and of what was written after it. Every node owns one
block of the pool. Inner nodes are full blocks, which any number of sequences read in place; leaves may also be *tails*,
the unfilled last block of a sequence that has ended. What is matched of a tail, or of a full block whose tokens part
half way, is copied into a block of the reader's own, so that short system prompts are reused too: copying 128 tokens
costs less than computing two.

Roots part what must never meet: a root's key holds the domain (model and dtype), the salt of the tenant and the pack
that lies before the first block. Keys are chained digests; on a hit the token ids are compared as well.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from readahead_serving.engine.kv.pool import BlockPool

MIN_COPIED = 16
"""Tokens that a partly matched block must give to be copied; a shorter run is computed again."""
COMPARED = 8
"""Blocks that begin with the same `MIN_COPIED` tokens and are compared, newest first: a bound, not a tuning."""


def digest(*parts: bytes) -> bytes:
    """SHA-256 of the parts, each with its length before it, so that no two lists of parts run together."""
    state = hashlib.sha256(b"readahead/kv/1")
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def token_bytes(tokens: Sequence[int]) -> bytes:
    return array("q", tokens).tobytes()


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many leading tokens the two share."""
    for place, (a, b) in enumerate(zip(first, second, strict=False)):
        if a != b:
            return place
    return min(len(first), len(second))


@dataclass(eq=False, slots=True)
class Node:
    """A block in the tree. A root has no parent, no tokens and no block."""

    key: bytes
    parent: Node | None = None
    tokens: tuple[int, ...] = ()
    block: int = -1
    children: dict[bytes, Node] = field(default_factory=dict)
    similar: dict[tuple[int, ...], list[Node]] = field(default_factory=dict)
    """Children and tails by their first `MIN_COPIED` tokens, oldest first."""
    readers: int = 0
    """Sequences that read the block in place; whoever reads a node reads all above it."""
    used_at: int = 0

    @property
    def is_leaf(self) -> bool:
        return not self.similar


@dataclass(frozen=True, slots=True)
class Match:
    """What the tree holds of a run of tokens."""

    nodes: tuple[Node, ...] = ()
    """Full blocks from the root on, to be read in place."""
    source: Node | None = None
    """The node whose block goes on from there, if one does."""
    copied: int = 0
    """Its leading tokens to copy."""


class PrefixTree:
    """All blocks kept for reuse. Those that nobody reads stay until their room is needed, least recently used first."""

    def __init__(self, pool: BlockPool, domain: bytes = b"") -> None:
        self._pool = pool
        self._domain = domain
        self._roots: dict[bytes, Node] = {}
        self._ticks = itertools.count(1)
        self._order = itertools.count()
        self._evictable: list[tuple[int, int, Node]] = []  # a heap; entries that no longer hold are skipped
        self._size = self._idle = 0
        self.evictions = 0

    @property
    def num_idle(self) -> int:
        """Blocks that nobody reads: all of them can be evicted, leaves first."""
        return self._idle

    def root_key(self, salt: str, before: bytes = b"") -> bytes:
        """The root for a salt and what lies before the first block, given as a digest."""
        return digest(self._domain, salt.encode(), before)

    def match(self, root_key: bytes, tokens: Sequence[int]) -> Match:
        """The longest run of blocks that spells the beginning of `tokens`. Changes nothing."""
        node = self._roots.get(root_key)
        nodes: list[Node] = []
        size, start = self._pool.block_tokens, 0
        while node is not None and (child := self._child(node, tokens[start : start + size])) is not None:
            nodes.append(child)
            node, start = child, start + size
        if node is None:
            return Match()
        source, copied = self._closest(node, tokens[start : start + size])
        return Match(tuple(nodes), source, copied)

    def _child(self, node: Node, tokens: Sequence[int]) -> Node | None:
        if not node.children or len(tokens) < self._pool.block_tokens:
            return None
        child = node.children.get(digest(node.key, token_bytes(tokens)))
        return child if child is not None and child.tokens == tuple(tokens) else None

    def _closest(self, node: Node, tokens: Sequence[int]) -> tuple[Node | None, int]:
        candidates = node.similar.get(tuple(tokens[:MIN_COPIED]), [])[-COMPARED:]
        found = max(reversed(candidates), key=lambda one: common(one.tokens, tokens), default=None)
        return (found, common(found.tokens, tokens)) if found is not None else (None, 0)

    def acquire(self, nodes: Sequence[Node]) -> None:
        """Begins to read blocks in place: they stay until released."""
        tick = next(self._ticks)
        for node in nodes:
            self._idle -= node.readers == 0
            node.readers += 1
            node.used_at = tick

    def release(self, nodes: Sequence[Node]) -> None:
        tick = next(self._ticks)
        for node in reversed(nodes):
            assert node.readers > 0
            node.readers -= 1
            node.used_at = tick
            self._idle += node.readers == 0
            self._offer(node)

    def touch(self, node: Node) -> None:
        """Notes that a block was used without being read in place."""
        node.used_at = next(self._ticks)
        self._offer(node)

    def publish(self, root_key: bytes, above: Sequence[Node], tokens: Sequence[int], block: int) -> Node:
        """Takes over a full block that its sequence has computed and goes on reading.

        Args:
            root_key: The sequence's root.
            above: The sequence's nodes before this block, in order.
            tokens: The block's.
            block: Its number. If the tree has the same tokens already, the block goes back to the pool.

        Returns:
            The node that the sequence now reads.
        """
        assert len(tokens) == self._pool.block_tokens
        parent = above[-1] if above else self._roots.setdefault(root_key, Node(root_key))
        node = self._child(parent, tokens)
        if node is not None:
            self._pool.release([block])
        else:
            node = Node(digest(parent.key, token_bytes(tokens)), parent, tuple(tokens), block)
            self._insert(node)
            parent.children[node.key] = node
        self.acquire([node])
        return node

    def publish_tail(self, root_key: bytes, above: Sequence[Node], tokens: Sequence[int], block: int) -> None:
        """Takes over the unfilled last block of a sequence that ends; only its first `tokens` hold anything."""
        parent = above[-1] if above else self._roots.setdefault(root_key, Node(root_key))
        if len(tokens) < MIN_COPIED or self._closest(parent, tokens)[1] == len(tokens):
            self._pool.release([block])
            self._drop_root(parent)
            return
        node = Node(b"", parent, tuple(tokens), block, used_at=next(self._ticks))
        self._insert(node)
        self._offer(node)

    def forget(self, nodes: Sequence[Node]) -> None:
        """Drops released blocks that nobody else reads or goes on from, deepest first."""
        for node in reversed(nodes):
            if node.readers or not node.is_leaf:
                return
            self._remove(node)

    def evict(self, blocks: int) -> None:
        """Gives `blocks` idle blocks back to the pool."""
        assert blocks <= self._idle
        while blocks > 0:
            used_at, _, node = heapq.heappop(self._evictable)
            if node.used_at == used_at and self._can_go(node):
                self._remove(node)
                self.evictions += 1
                blocks -= 1

    def blocks(self) -> Iterator[int]:
        """Every block in the tree, found by walking it."""
        stack = list(self._roots.values())
        while stack:
            node = stack.pop()
            below = [child for group in node.similar.values() for child in group]
            yield from (child.block for child in below)
            stack.extend(below)

    def __len__(self) -> int:
        return self._size

    def _insert(self, node: Node) -> None:
        assert node.parent is not None
        group = node.parent.similar.setdefault(node.tokens[:MIN_COPIED], [])
        # a tail that the new block begins with says nothing more
        for old in [old for old in group if not old.key and node.tokens[: len(old.tokens)] == old.tokens]:
            self._unlink(old)
        node.parent.similar.setdefault(node.tokens[:MIN_COPIED], []).append(node)
        self._size += 1
        self._idle += 1

    def _can_go(self, node: Node) -> bool:
        return node.readers == 0 and node.is_leaf and node.block >= 0

    def _offer(self, node: Node) -> None:
        if self._can_go(node):
            heapq.heappush(self._evictable, (node.used_at, next(self._order), node))
            if len(self._evictable) > 2 * self._size + 64:  # mostly entries that no longer hold
                self._evictable = [entry for entry in self._evictable if entry[2].used_at == entry[0]]
                heapq.heapify(self._evictable)

    def _remove(self, node: Node) -> None:
        parent = node.parent
        self._unlink(node)
        assert parent is not None
        if parent.parent is None:
            self._drop_root(parent)
        else:
            self._offer(parent)

    def _unlink(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        assert self._can_go(node)
        if node.key:
            del parent.children[node.key]
        group = parent.similar[node.tokens[:MIN_COPIED]]
        group.remove(node)
        if not group:
            del parent.similar[node.tokens[:MIN_COPIED]]
        self._pool.release([node.block])
        node.block = -1
        self._size -= 1
        self._idle -= 1

    def _drop_root(self, node: Node) -> None:
        if node.parent is None and node.is_leaf:
            self._roots.pop(node.key, None)
