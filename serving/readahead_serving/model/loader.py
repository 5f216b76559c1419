"""From files on disk to a decoder in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from readahead_serving.errors import ModelLoadError
from readahead_serving.kernels.library import Kernels
from readahead_serving.model.block_linear import BlockFactory, BlockLinear
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.decoder import Decoder, DecoderWeights, LayerWeights
from readahead_serving.model.embedding import Embedding, EmbeddingTable
from readahead_serving.model.families import config_from_gguf
from readahead_serving.model.gguf_file import GGUFFile
from readahead_serving.model.gguf_weights import GGUFWeights
from readahead_serving.model.linear import Linear, LinearFactory, LinearForms, choose_forms
from readahead_serving.model.metadata import GGUF_SUFFIX, load_config
from readahead_serving.model.operations import choose_operations
from readahead_serving.model.weights import SafetensorsFolder, WeightSource

_EMBEDDING = "model.embed_tokens"
_DERIVED = ("rotary_emb.inv_freq",)
"""Tensors that some files carry and that follow from the configuration."""
_ROPE_DIVISORS = "rope_freqs.weight"
"""How GGUF files carry Llama 3's stretching of rotary frequencies."""


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to compute."""

    config: ModelConfig
    decoder: Decoder


def load_model(
    path: Path, dtype: torch.dtype, forms: LinearForms | None = None, kernels: Kernels | None = None
) -> LoadedModel:
    """Loads a GGUF file or a safetensors folder.

    Args:
        path: What `ModelStore.resolve` returned.
        dtype: Of activations and the embedding table: bfloat16 or float32.
        forms: How linear layers are held; by default in `dtype`, in the form that is fastest here.
        kernels: Our own, where there are any, for what is no linear layer.

    Raises:
        ModelLoadError: A file is missing, damaged or of an unknown kind.
    """
    config, source = _open(path)
    assembly = _Assembly(config, source, dtype, forms or choose_forms(dtype, kernels=kernels), str(path))
    return LoadedModel(config, Decoder(config, assembly.build(), choose_operations(kernels, config)))


def _open(path: Path) -> tuple[ModelConfig, WeightSource]:
    if path.suffix == GGUF_SUFFIX:
        file = GGUFFile(path)
        config = config_from_gguf(file.metadata, file.names(), str(path))
        return config, GGUFWeights(file, config)
    return load_config(path), SafetensorsFolder(path)


class _Assembly:
    """Builds the decoder's weights out of a source, each tensor read once, checked and accounted for."""

    def __init__(
        self, config: ModelConfig, source: WeightSource, dtype: torch.dtype, forms: LinearForms, origin: str
    ) -> None:
        self._config = config
        self._source = source
        self._dtype = dtype
        self._forms = forms
        self._origin = origin
        self._unread = set(source.names())

    def build(self) -> DecoderWeights:
        config = self._config
        embedding, head = self._vocabulary()
        layers = tuple(self._layer(f"model.layers.{number}.") for number in range(config.num_layers))
        norm = self._norm("model.norm.weight")
        weights = DecoderWeights(
            embedding=embedding,
            layers=layers,
            norm=norm,
            head=head,
            rope_divisors=self._rope_divisors(),
        )
        self._refuse_unread()
        return weights

    def _layer(self, prefix: str) -> LayerWeights:
        config = self._config
        hidden, inner = config.hidden_size, config.intermediate_size
        q, kv, _ = config.qkv_sizes
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        return LayerWeights(
            attention_norm=self._norm(f"{prefix}input_layernorm.weight"),
            qk_norm=self._qk_norm(attention) if config.qk_norm else None,
            qkv=self._fused(
                [(f"{attention}q_proj", q), (f"{attention}k_proj", kv), (f"{attention}v_proj", kv)],
                hidden,
                bias=config.qkv_bias,
            ),
            output=self._fused([(f"{attention}o_proj", hidden)], q, bias=config.output_bias),
            mlp_norm=self._norm(f"{prefix}post_attention_layernorm.weight"),
            gate_up=self._fused([(f"{mlp}gate_proj", inner), (f"{mlp}up_proj", inner)], hidden, bias=config.mlp_bias),
            down=self._fused([(f"{mlp}down_proj", hidden)], inner, bias=config.mlp_bias),
        )

    def _vocabulary(self) -> tuple[Embedding, Linear]:
        """Both its ends. Where they are tied, and the output layer can tell its rows, they are held once."""
        config, forms = self._config, self._forms
        rows, columns = config.vocab_size, config.hidden_size
        held = self._held([(_EMBEDDING, rows)], columns, forms.head_blocks)
        if not config.tied_embeddings:
            embedding = held or EmbeddingTable(self._read(f"{_EMBEDDING}.weight", rows, columns).to(self._dtype))
            head = self._held([("lm_head", rows)], columns, forms.head_blocks)
            return embedding, head or self._linear(forms.head, self._read("lm_head.weight", rows, columns))
        self._unread.discard("lm_head.weight")
        return (held, held) if held else self._tied(self._read(f"{_EMBEDDING}.weight", rows, columns))

    def _tied(self, table: Tensor) -> tuple[Embedding, Linear]:
        # the very tensor where that will do, so that it may be held once
        embedding = table.to(self._dtype)
        head = self._linear(self._forms.head, embedding if self._forms.cast is self._dtype else table)
        if isinstance(head, Embedding) and head.dtype is self._dtype:
            return head, head
        return EmbeddingTable(embedding), head

    def _fused(self, parts: list[tuple[str, int]], columns: int, *, bias: bool = False) -> Linear:
        """Matrices that share their input, stacked into one."""
        biases = torch.cat([self._read(f"{name}.bias", rows) for name, rows in parts]) if bias else None
        if held := self._held(parts, columns, self._forms.blocks, biases):
            return held
        weight = torch.cat([self._read(f"{name}.weight", rows, columns) for name, rows in parts])
        return self._linear(self._forms.layers, weight, biases)

    def _held(
        self, parts: list[tuple[str, int]], columns: int, factory: BlockFactory | None, bias: Tensor | None = None
    ) -> BlockLinear | None:
        """The same in the blocks that the file has them in, where the factory takes all of them."""
        if factory is None:
            return None
        weights = []
        for name, rows in parts:
            weight = self._source.blocks(f"{name}.weight")
            if weight is None or weight.shape != (rows, columns) or not factory.takes(weight):
                return None
            weights.append(weight)
        self._unread.difference_update(f"{name}.weight" for name, _ in parts)
        return factory(weights, None if bias is None else bias.to(self._forms.cast or bias.dtype))

    def _linear(self, factory: LinearFactory, weight: Tensor, bias: Tensor | None = None) -> Linear:
        dtype = self._forms.cast or weight.dtype
        return factory(weight.to(dtype), None if bias is None else bias.to(dtype))

    def _norm(self, name: str) -> Tensor:
        return self._read(name, self._config.hidden_size).float()

    def _qk_norm(self, attention: str) -> Tensor:
        """One weight for all heads, and another for all KV heads, laid out so that one multiplication does both."""
        config = self._config
        q, k = (self._read(f"{attention}{name}.weight", config.head_dim).float() for name in ("q_norm", "k_norm"))
        return torch.cat((q.expand(config.num_heads, -1), k.expand(config.num_kv_heads, -1)))

    def _rope_divisors(self) -> Tensor | None:
        if _ROPE_DIVISORS not in self._unread:
            return None
        return self._read(_ROPE_DIVISORS, self._config.head_dim // 2).float()

    def _read(self, name: str, *shape: int) -> Tensor:
        if name not in self._source.names():
            raise ModelLoadError(f"{self._origin} lacks the tensor {name}: download the model again.")
        tensor = self._source.read(name)
        if tensor.shape != shape or not tensor.is_floating_point():
            raise ModelLoadError(
                f"{self._origin}: {name} is {tensor.dtype} {tuple(tensor.shape)} where the configuration wants {shape}."
            )
        self._unread.discard(name)
        return tensor

    def _refuse_unread(self) -> None:
        """A tensor the decoder does not use is a computation it would leave out: a wrong answer, so a refusal."""
        if left := [name for name in sorted(self._unread) if not name.endswith(_DERIVED)]:
            raise ModelLoadError(f"{self._origin}: {len(left)} tensors have no place in the decoder, {left[0]} first.")
