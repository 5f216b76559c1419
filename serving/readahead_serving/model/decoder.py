"""The decoder: Llama-like layers with as few operations as they need, ignorant of batches and caches.

A step's tokens come as one flat row, whichever sequences they belong to; only `Attention` knows. Query, key and value
are one matrix, as are gate and up. The residual stream is float32 whatever the weights are: it costs nothing that can
be measured and nearly halves the error that bfloat16 makes in the logits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from readahead_serving.model.attention import Attention
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.embedding import Embedding
from readahead_serving.model.linear import Linear
from readahead_serving.model.operations import Operations, TorchOperations
from readahead_serving.model.rope import RotaryEmbedding


@dataclass(frozen=True, kw_only=True)
class LayerWeights:
    """One layer: norms (hidden) in float32, `qkv` hidden → query + key + value, `gate_up` hidden → 2 × intermediate.

    `qk_norm` is (query heads + KV heads, head dim) in float32, where the family has it.
    """

    attention_norm: Tensor
    qkv: Linear
    output: Linear
    qk_norm: Tensor | None = None
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, kw_only=True)
class DecoderWeights:
    """A whole model: `embedding` of the vocabulary (hidden), `norm` (hidden) in float32, `head` hidden → vocab.

    `rope_divisors` is (head dim / 2) in float32, where the file has it: see `RotaryEmbedding`.
    """

    embedding: Embedding
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Linear
    rope_divisors: Tensor | None = None


class Decoder:
    """Turns token ids into logits."""

    def __init__(self, config: ModelConfig, weights: DecoderWeights, operations: Operations | None = None) -> None:
        assert len(weights.layers) == config.num_layers
        self.config = config
        self._operations = operations or TorchOperations()
        self._weights = weights
        self._rotary = RotaryEmbedding(config, weights.embedding.dtype, weights.rope_divisors)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of activations, and so of the keys and values handed to `Attention`."""
        return self._weights.embedding.dtype

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, positions: Tensor, attention: Attention, rows: Tensor) -> Tensor:
        """Computes one step.

        Args:
            token_ids: (T) int64.
            positions: (T) int64, each below `config.max_positions`.
            attention: Called once per layer, in order.
            rows: (R) int64, the tokens whose logits are wanted, as indices into the T.

        Returns:
            (R, vocab) float32.
        """
        assert token_ids.shape == positions.shape, (token_ids.shape, positions.shape)
        hidden = self._weights.embedding.rows(token_ids).float()
        factors = self._rotary.at(positions)
        delta = None
        for number, layer in enumerate(self._weights.layers):
            delta = self._attend(self._norm(hidden, delta, layer.attention_norm), number, layer, factors, attention)
            delta = self._feed_forward(self._norm(hidden, delta, layer.mlp_norm), layer)
        last = hidden[rows]
        return self._weights.head(self._norm(last, None if delta is None else delta[rows], self._weights.norm)).float()

    def _attend(
        self, x: Tensor, number: int, layer: LayerWeights, factors: tuple[Tensor, Tensor], attention: Attention
    ) -> Tensor:
        config = self.config
        heads = layer.qkv(x).view(len(x), -1, config.head_dim)
        turned = heads[:, : config.num_heads + config.num_kv_heads]
        if layer.qk_norm is not None:
            turned = F.rms_norm(turned.float(), (config.head_dim,), None, config.rms_norm_eps)
            turned = turned.mul_(layer.qk_norm).to(self.dtype)
        if number not in config.no_rope_layers:
            turned = self._operations.rotate(turned, factors)
        q, k, v = turned[:, : config.num_heads], turned[:, config.num_heads :], heads[:, -config.num_kv_heads :]
        return layer.output(attention(number, q, k, v).reshape(len(x), -1))

    def _feed_forward(self, x: Tensor, layer: LayerWeights) -> Tensor:
        return layer.down(self._operations.gate(layer.gate_up(x)))

    def _norm(self, hidden: Tensor, delta: Tensor | None, weight: Tensor) -> Tensor:
        return self._operations.add_and_normalize(hidden, delta, weight, self.config.rms_norm_eps, self.dtype)
