"""A GGUF file's tensors under Hugging Face's names and in its row order."""

from __future__ import annotations

import re
from functools import partial

import torch
from torch import Tensor

from readahead_serving.kernels.blocks import Blocks
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.families import FAMILIES
from readahead_serving.model.gguf_blocks import read_blocks
from readahead_serving.model.gguf_file import GGUFFile

_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_NAME = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")


class GGUFWeights:
    """A `WeightSource` over a GGUF file. Tensors that no family knows keep their own names."""

    def __init__(self, file: GGUFFile, config: ModelConfig) -> None:
        self._file = file
        self._config = config
        self._origins = {_hf_name(name): name for name in file.names()}
        self._interleaved = FAMILIES[config.family].gguf_interleaves_rotary

    def names(self) -> frozenset[str]:
        return frozenset(self._origins)

    def read(self, name: str) -> Tensor:
        return self._in_order(name, torch.from_numpy(self._file.read(self._origins[name])))

    def blocks(self, name: str) -> Blocks | None:
        if name not in self._origins:
            return None
        rows, kind = self._file.stored(self._origins[name])
        held = read_blocks(rows, kind) if rows.ndim == 2 else None
        return held and held.with_rows(partial(self._in_order, name))

    def _in_order(self, name: str, tensor: Tensor) -> Tensor:
        if self._interleaved and ".q_proj." in name:
            return halves_from_pairs(tensor, self._config.num_heads)
        if self._interleaved and ".k_proj." in name:
            return halves_from_pairs(tensor, self._config.num_kv_heads)
        return tensor


def halves_from_pairs(tensor: Tensor, heads: int) -> Tensor:
    """Undoes llama.cpp's reordering of query and key rows: per head (0, 1, 2, …) back to (0, 2, …, 1, 3, …)."""
    return tensor.reshape(heads, -1, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def _hf_name(name: str) -> str:
    if match := _LAYER_NAME.fullmatch(name):
        number, part, kind = match.groups()
        return f"model.layers.{number}.{_LAYER[part]}.{kind}" if part in _LAYER else name
    stem, _, kind = name.rpartition(".")
    return f"{_WHOLE[stem]}.{kind}" if stem in _WHOLE else name
