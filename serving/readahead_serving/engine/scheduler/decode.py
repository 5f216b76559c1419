"""Steps of sequences that need one more token, and KV room for all that run."""

from __future__ import annotations

from readahead_serving.engine.kv.cache import KVCache
from readahead_serving.engine.scheduler.plan import Chunk
from readahead_serving.engine.sequence import Sequence


def make_room(running: list[Sequence], cache: KVCache) -> list[Sequence]:
    """Gives every running sequence blocks for all its tokens, oldest first.

    Where KV runs short, the youngest sequence of the lowest priority is preempted: it leaves `running` and its blocks
    go to the cache; what is evicted there before its turn comes again is computed again. The oldest always gets on,
    because no request is taken that the empty pool could not hold.

    Returns:
        The preempted sequences, youngest first.
    """
    preempted: list[Sequence] = []
    position = 0
    while position < len(running):
        sequence = running[position]
        if cache.grow(sequence):
            position += 1
            continue
        assert len(running) > 1, "a sequence outgrew the whole pool"
        preempted.append(preempt(running.pop(), cache))
    return preempted


def preempt(sequence: Sequence, cache: KVCache) -> Sequence:
    """Takes a running sequence's KV back; it finds again what nobody else needed in the meantime."""
    cache.release(sequence)
    sequence.preemptions += 1
    return sequence


def decode_chunks(running: list[Sequence]) -> list[Chunk]:
    """One token, and its draft, for every sequence that lies one behind: these never wait for a prefill."""
    return [Chunk.next(sequence, 1 + len(sequence.draft)) for sequence in running if sequence.num_pending == 1]
