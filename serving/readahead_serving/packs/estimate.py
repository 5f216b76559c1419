"""What a pack would cost, before it is built."""

from __future__ import annotations

import math
from dataclasses import dataclass

from readahead_serving.engine.kv.pack import KEY_GROUP
from readahead_serving.engine.kv.pack_manifest import BYTES_LAYOUT, PackIdentity
from readahead_serving.engine.scheduler.cost import StepCosts
from readahead_serving.model.config import ModelConfig

_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_SCALE_BYTES = 4
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


@dataclass(frozen=True, slots=True)
class PackSize:
    """What a pack's keys and values take, by the model's shape and how they are held."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    number_bytes: int
    is_bytes: bool = False
    """Whether there are scales: see `PackKV`."""

    @classmethod
    def of(cls, config: ModelConfig, identity: PackIdentity) -> PackSize:
        is_bytes = identity.layout == BYTES_LAYOUT
        number_bytes = 1 if is_bytes else _DTYPE_BYTES[identity.dtype]
        return cls(config.num_layers, config.num_kv_heads, config.head_dim, number_bytes, is_bytes)

    @property
    def num_blocks(self) -> int:
        """Of a pack on disk: each begins a page."""
        return (4 if self.is_bytes else 2) * self.num_layers

    def nbytes(self, tokens: int) -> int:
        """Of keys and values in all layers, scales included."""
        numbers = 2 * tokens * self.head_dim * self.number_bytes
        scales = -(-tokens // KEY_GROUP) * self.head_dim + tokens if self.is_bytes else 0
        return self.num_layers * self.num_kv_heads * (numbers + _SCALE_BYTES * scales)


def estimate(tokens: int, nbytes: int, costs: StepCosts, chunk_tokens: int) -> PackEstimate:
    """Predicts the build of so many tokens, which take so many bytes, from what steps were measured to cost."""
    if not costs.is_measured:
        return PackEstimate(tokens, nbytes, None, None)
    cold_s = costs.prefill_s(0, tokens, chunk_tokens=chunk_tokens)
    # With the pack, a question's own tokens still read it once.
    saved_s = max(1e-9, cold_s - costs.decode_context_s * tokens)
    break_even = math.ceil((cold_s + nbytes / _WRITE_BYTES_PER_S) / saved_s)
    return PackEstimate(tokens, nbytes, cold_s, break_even)
