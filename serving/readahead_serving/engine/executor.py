"""Runs the model over one step's tokens."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import accumulate

import torch
from torch import Tensor

from readahead_serving.engine.attention import BatchAttention
from readahead_serving.engine.kv.pack import PackKV
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.scheduler.plan import Chunk, StepPlan
from readahead_serving.engine.sequence import Sequence
from readahead_serving.model.attention import Attention
from readahead_serving.model.decoder import Decoder

AttentionFactory = Callable[[KVStorage, Seq[Chunk]], Attention]
"""Makes the attention of one step, whose chunks of a single token come first."""


class Executor:
    """Turns a plan into logits and fills the KV cache on the way."""

    def __init__(self, decoder: Decoder, storage: KVStorage, attention: AttentionFactory = BatchAttention) -> None:
        self._decoder = decoder
        self._storage = storage
        self._attention = attention

    @torch.inference_mode()
    def execute(self, plan: StepPlan) -> Tensor:
        """Computes the plan's chunks in one forward pass.

        Returns:
            (R, vocab) float32: the logits of each chunk's last `num_rows` tokens, in the plan's order.
        """
        for source, target in plan.copies:
            self._storage.copy_block(source, target)
        token_ids = torch.tensor([token for chunk in plan.chunks for token in chunk.token_ids])
        positions = torch.cat([torch.arange(chunk.start, chunk.end) for chunk in plan.chunks])
        ends = accumulate(chunk.count for chunk in plan.chunks)
        rows = torch.tensor(
            [end - n for end, chunk in zip(ends, plan.chunks, strict=True) for n in range(chunk.num_rows, 0, -1)],
            dtype=torch.long,
        )
        return self._decoder.forward(token_ids, positions, self._attention(self._storage, plan.chunks), rows)

    @torch.inference_mode()
    def lay_out(self, sequence: Sequence) -> PackKV:
        """The KV of all that a sequence has computed, as a pack: a copy, what it reads in another pack included.

        What lay there in bytes is float32 then, so that it is the same bytes again if they are made.
        """
        keys, values = [], []
        for layer in range(self._storage.num_layers):
            own = self._storage.lay_out(layer, sequence.blocks, sequence.num_computed - sequence.own_start)
            if sequence.pack is not None:
                read = sequence.pack.pack.kv.beginning(layer, sequence.own_start, torch.float32)
                own = torch.cat((read[0], own[0]), 1), torch.cat((read[1], own[1]), 1)
            keys.append(own[0])
            values.append(own[1])
        return PackKV(sequence.token_ids[: sequence.num_computed], keys, values)
