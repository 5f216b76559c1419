"""What a pack would cost, before it is built."""

from __future__ import annotations

import math
from dataclasses import dataclass

from readahead_serving.engine.kv.pack_manifest import PackIdentity
from readahead_serving.engine.scheduler.cost import StepCosts
from readahead_serving.model.config import ModelConfig

_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_WRITE_BYTES_PER_S = 200e6
"""A guess at a disk that also syncs, used for the break-even count only."""


@dataclass(frozen=True, slots=True)
class PackEstimate:
    """Numbers for a decision; seconds are None until the engine has been measured."""

    tokens: int
    nbytes: int
    build_s: float | None
    break_even_questions: int | None
    """Questions from which on the pack has saved more time than it took."""


def bytes_per_token(config: ModelConfig, identity: PackIdentity) -> int:
    """Of keys and values in all layers."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * _DTYPE_BYTES[identity.dtype]


def estimate(tokens: int, token_bytes: int, costs: StepCosts, chunk_tokens: int) -> PackEstimate:
    """Predicts a build from what steps were measured to cost."""
    nbytes = tokens * token_bytes
    if not costs.is_measured:
        return PackEstimate(tokens, nbytes, None, None)
    cold_s = costs.prefill_s(0, tokens, chunk_tokens=chunk_tokens)
    # With the pack, a question's own tokens still read it once.
    saved_s = max(1e-9, cold_s - costs.decode_context_s * tokens)
    break_even = math.ceil((cold_s + nbytes / _WRITE_BYTES_PER_S) / saved_s)
    return PackEstimate(tokens, nbytes, cold_s, break_even)
