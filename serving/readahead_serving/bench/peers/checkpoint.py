"""Our GGUF file as a folder that servers built on `transformers` load, so that every peer computes the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from readahead_serving.errors import PeerAbsent
from readahead_serving.model.config import ModelConfig
from readahead_serving.model.families import config_from_gguf
from readahead_serving.model.gguf_file import GGUFFile
from readahead_serving.model.gguf_weights import GGUFWeights
from readahead_serving.model.tokenizer_files import tokenizer_from_gguf
from readahead_serving.model.weights import SINGLE_FILE

_FAMILIES = {"llama": "LlamaForCausalLM"}
"""By family, transformers' class; those whose shape the few fields below say in full."""
_NAMED = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}


def write_checkpoint(gguf: Path, folder: Path) -> None:
    """Writes weights in bfloat16, configuration, tokenizer and chat template. The weights come last.

    Raises:
        PeerAbsent: The model is of another family or shape than those written here.
    """
    file = GGUFFile(gguf)
    config = config_from_gguf(file.metadata, file.names(), str(gguf))
    if config.family not in _FAMILIES or config.rope_scaling.kind != "default":
        raise PeerAbsent(f"{gguf.name} is of a family or with rotary scaling that is not written as a checkpoint.")
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "config.json", _configuration(config))
    _write_json(folder / "generation_config.json", {"eos_token_id": list(config.eos_token_ids)})
    (folder / "tokenizer.json").write_text(tokenizer_from_gguf(file, config).to_json(), "utf-8")
    _write_json(folder / "tokenizer_config.json", _tokenizer_settings(file.metadata, config))
    source = GGUFWeights(file, config)
    tensors = {name: source.read(name).to(torch.bfloat16).contiguous() for name in sorted(source.names())}
    beside = folder / f"{SINGLE_FILE}.part"
    save_file(tensors, beside, metadata={"format": "pt"})
    beside.replace(folder / SINGLE_FILE)


def _configuration(config: ModelConfig) -> dict[str, Any]:
    return {
        "architectures": [_FAMILIES[config.family]],
        "model_type": config.family,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "hidden_act": "silu",
        "attention_bias": config.qkv_bias,
        "mlp_bias": config.mlp_bias,
        "tie_word_embeddings": config.tied_embeddings,
        "bos_token_id": config.bos_token_id,
        "eos_token_id": list(config.eos_token_ids),
        "torch_dtype": "bfloat16",
    }


def _tokenizer_settings(metadata: dict[str, Any], config: ModelConfig) -> dict[str, Any]:
    tokens = metadata["tokenizer.ggml.tokens"]
    numbers = {name: metadata.get(f"tokenizer.ggml.{key}_token_id") for name, key in _NAMED.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.max_positions,
        "clean_up_tokenization_spaces": False,
        "chat_template": metadata.get("tokenizer.chat_template"),
        **{f"{name}_token": tokens[number] for name, number in numbers.items() if number is not None},
    }


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False), "utf-8")
