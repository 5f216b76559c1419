"""BERT's encoder without padding: the sequences of a batch lie one behind the other in one matrix.

Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2019), as the families BERT, RoBERTa and
XLM-RoBERTa compute it, which most embedding models are. A layer is seven operations: weights are packed once in
oneDNN's layout, and activations, residuals and biases are part of the matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from readahead_serving.embedding_attention import Attend, Texts, choose_attention
from readahead_serving.kernels.library import Kernels

_FAMILIES = {"BertModel": False, "RobertaModel": True, "XLMRobertaModel": True}
"""By class, whether positions are counted from behind the padding token's id."""
_ROW_STEPS = ((16, 1), (256, 32))
"""Up to so many rows they are computed in multiples of so many, and of 128 above: oneDNN keeps a compiled kernel, and
half a megabyte for it, for each number of rows that it meets."""
_LARGE_ROW_STEP = 128


def runs_of(batch: Sequence[Sequence[int]]) -> list[Texts]:
    """Runs of a batch whose sequences of one length stand side by side."""
    runs, at = [], 0
    for length, equal in groupby(map(len, batch)):
        runs.append(Texts(at, sum(1 for _ in equal), length))
        at = runs[-1].end
    return runs


class _Linear:
    """x Wᵀ + b, by a weight that is packed once."""

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach().to(dtype).contiguous(), None)
        self._bias = bias.detach().to(dtype)

    def plain(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
        return y

    def gelu(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "gelu", [], "none")
        return y

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._weight, self._bias, "add")
        return y


class _Norm:
    def __init__(self, module: Any, dtype: torch.dtype) -> None:
        self._weight, self._bias = module.weight.detach().to(dtype), module.bias.detach().to(dtype)
        self._eps: float = module.eps

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, (x.shape[-1],), self._weight, self._bias, self._eps)


class _Layer:
    def __init__(self, module: Any, dtype: torch.dtype) -> None:
        own = module.attention.self
        parts = (own.query, own.key, own.value)
        weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
        self._heads: int = own.num_attention_heads
        self._into_attention = _Linear(weight, bias, dtype)
        out = module.attention.output
        self._out_of_attention = _Linear(out.dense.weight, out.dense.bias, dtype)
        self._attention_norm = _Norm(out.LayerNorm, dtype)
        self._up = _Linear(module.intermediate.dense.weight, module.intermediate.dense.bias, dtype)
        self._down = _Linear(module.output.dense.weight, module.output.dense.bias, dtype)
        self._norm = _Norm(module.output.LayerNorm, dtype)

    def __call__(self, x: Tensor, attend: Attend) -> Tensor:
        parts = self._into_attention.plain(x).view(len(x), 3, self._heads, -1)
        attended = attend(parts[:, 0], parts[:, 1], parts[:, 2])
        x = self._attention_norm(self._out_of_attention.plus(attended, x))
        return self._norm(self._down.plus(self._up.gelu(x), x))


class BertEncoder:
    """The hidden states of a transformers model of BERT's kind, which is no longer needed afterwards."""

    def __init__(self, model: Any, dtype: torch.dtype, kernels: Kernels | None = None) -> None:
        self._heads: int = model.config.num_attention_heads
        self._dim: int = model.config.hidden_size // self._heads
        self._attention = choose_attention(kernels, self._dim)
        own = model.embeddings
        self._words = own.word_embeddings.weight.detach().to(dtype)
        places = own.position_embeddings.weight + own.token_type_embeddings.weight[0]  # texts have one type of token
        first = model.config.pad_token_id + 1 if _FAMILIES[type(model).__name__] else 0
        self._places = places.detach().to(dtype)[first:]
        self._norm = _Norm(own.LayerNorm, dtype)
        self._layers = [_Layer(layer, dtype) for layer in model.encoder.layer]

    @staticmethod
    def computes(model: Any) -> bool:
        """Whether the model is of a family that is computed here, on a machine whose torch has oneDNN."""
        if type(model).__name__ not in _FAMILIES or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
            return False
        config = model.config
        absolute = getattr(config, "position_embedding_type", "absolute") in (None, "absolute")
        return bool(absolute and config.hidden_act == "gelu" and not getattr(config, "is_decoder", False))

    def __call__(self, batch: Sequence[Sequence[int]], runs: Sequence[Texts]) -> Tensor:
        """Hidden states of a batch's tokens, (at least its tokens, width); rows behind the last mean nothing."""
        tokens = [token for sequence in batch for token in sequence]
        places = [place for sequence in batch for place in range(len(sequence))]
        beyond = [0] * (_rows(len(tokens)) - len(tokens))
        x = self._norm(self._words[torch.tensor(tokens + beyond)] + self._places[torch.tensor(places + beyond)])
        attend = self._attention(runs, self._heads, self._dim, x.dtype)
        for layer in self._layers:
            x = layer(x, attend)
        return x


def _rows(tokens: int) -> int:
    step = next((step for most, step in _ROW_STEPS if tokens <= most), _LARGE_ROW_STEP)
    return -(-tokens // step) * step
