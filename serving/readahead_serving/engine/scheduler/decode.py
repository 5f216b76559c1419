"""Steps of sequences that need one more token, and KV room for all that run."""

from __future__ import annotations

from readahead_serving.engine.kv.pool import BlockPool
from readahead_serving.engine.scheduler.plan import Chunk
from readahead_serving.engine.sequence import Sequence


def make_room(running: list[Sequence], pool: BlockPool) -> list[Sequence]:
    """Gives every running sequence blocks for all its tokens, oldest first.

    Where KV runs short, the youngest sequence is preempted: it loses its blocks, leaves `running` and computes its
    tokens again later. The oldest always gets on, because no request is taken that the empty pool could not hold.

    Returns:
        The preempted sequences, youngest first.
    """
    preempted: list[Sequence] = []
    position = 0
    while position < len(running):
        sequence = running[position]
        if pool.extend(sequence.blocks, sequence.num_tokens):
            position += 1
            continue
        assert len(running) > 1, "a sequence outgrew the whole pool"
        preempted.append(_preempt(running.pop(), pool))
    return preempted


def _preempt(sequence: Sequence, pool: BlockPool) -> Sequence:
    pool.release(sequence.blocks)
    sequence.num_computed = 0
    sequence.preemptions += 1
    return sequence


def decode_chunks(running: list[Sequence]) -> list[Chunk]:
    """One token for every sequence that lies one behind: these never wait for a prefill."""
    return [Chunk.next(sequence, 1) for sequence in running if sequence.num_pending == 1]
