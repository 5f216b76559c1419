"""Runs the model over one step's tokens."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor

from readahead_serving.engine.attention import BatchAttention
from readahead_serving.engine.kv.storage import KVStorage
from readahead_serving.engine.scheduler.plan import StepPlan
from readahead_serving.model.decoder import Decoder


class Executor:
    """Turns a plan into logits and fills the KV cache on the way."""

    def __init__(self, decoder: Decoder, storage: KVStorage) -> None:
        self._decoder = decoder
        self._storage = storage

    @torch.inference_mode()
    def execute(self, plan: StepPlan) -> Tensor:
        """Computes the plan's chunks in one forward pass.

        Returns:
            (R, vocab) float32: the last token's logits of each chunk that catches up, in the plan's order.
        """
        token_ids = torch.tensor([token for chunk in plan.chunks for token in chunk.token_ids])
        positions = torch.cat([torch.arange(chunk.start, chunk.end) for chunk in plan.chunks])
        ends = accumulate(chunk.count for chunk in plan.chunks)
        rows = torch.tensor(
            [end - 1 for end, chunk in zip(ends, plan.chunks, strict=True) if chunk.catches_up], dtype=torch.long
        )
        return self._decoder.forward(token_ids, positions, BatchAttention(self._storage, plan.chunks), rows)
