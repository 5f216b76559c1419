"""GGUF files, whole and damaged, written by the `gguf` package."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.gguf_file import GGUFFile
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_tokenizer
from tests.serving.decoding import all_logits
from tests.serving.test_model_families import TOKEN_IDS, oracle, save_random_model

HF_TO_GGUF = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem.startswith("model.layers."):
        number, _, part = stem.removeprefix("model.layers.").partition(".")
        return f"blk.{number}.{HF_TO_GGUF[part]}.{kind}"
    return f"{HF_TO_GGUF[stem]}.{kind}"


def pairs_from_halves(rows: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's reordering, as its convert_hf_to_gguf.py does it."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_gguf(path: Path, model: Any, kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32) -> Path:
    """Converts a transformers model; the tokenizer is left out."""
    config = model.config
    writer = gguf.GGUFWriter(path, config.model_type)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    for name, tensor in model.state_dict().items():
        values = tensor.numpy()
        if config.model_type == "llama" and ("q_proj" in name or "k_proj" in name):
            is_query = "q_proj" in name
            values = pairs_from_halves(values, config.num_attention_heads if is_query else config.num_key_value_heads)
        stored = kind if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("model_type", ["llama", "qwen2"])
def test_a_gguf_file_gives_the_logits_of_the_model_it_was_made_from(model_type: str, tmp_path: Path) -> None:
    model = save_random_model(tmp_path, model_type, {"num_key_value_heads": 2})
    path = write_gguf(tmp_path / "model.gguf", model)
    ours = all_logits(load_model(path, torch.float32).decoder, TOKEN_IDS)
    torch.testing.assert_close(ours, oracle(model), atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0"])
def test_quantised_tensors_are_read_to_their_precision(kind: str, tmp_path: Path) -> None:
    model = save_random_model(tmp_path, "llama", {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4})
    path = write_gguf(tmp_path / "model.gguf", model, gguf.GGMLQuantizationType[kind])
    tensor = torch.from_numpy(GGUFFile(path).read("blk.1.ffn_down.weight"))
    original = model.state_dict()["model.layers.1.mlp.down_proj.weight"]
    assert 0 < (tensor - original).norm() / original.norm() < 0.01


def test_metadata_of_every_type_is_read_as_the_gguf_package_reads_it(smollm2_path: Path) -> None:
    fields = gguf.GGUFReader(smollm2_path).fields
    ours = GGUFFile(smollm2_path).metadata
    theirs = {name: field.contents() for name, field in fields.items() if not name.startswith("GGUF.")}
    assert ours == theirs


@pytest.mark.parametrize("kept", [0, 3, 20, 200, 700, 5000, -1])
def test_a_truncated_file_is_refused_wherever_it_was_cut(kept: int, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", save_random_model(tmp_path, "llama", {"num_key_value_heads": 2}))
    # the last tensor's bytes end where the padding begins
    whole = path.read_bytes().rstrip(b"\0")
    path.write_bytes(whole[:kept])
    with pytest.raises(ModelLoadError, match=r"model\.gguf"):
        load_model(path, torch.float32)


ONE_ARRAY = struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q1sI", 1, b"k", 9)


@pytest.mark.parametrize(
    "rest",
    [
        struct.pack("<IQQ", 3, 1 << 60, 1 << 60) + b"\xff" * 64,
        ONE_ARRAY + struct.pack("<IQ", 8, 1 << 60),
        ONE_ARRAY + struct.pack("<IQ", 10, 1 << 60),
        ONE_ARRAY + struct.pack("<IQ", 9, 1),
        struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q1sIQ", 1, b"t", 1, 1 << 60) + struct.pack("<IQ", 0, 0),
    ],
    ids=["counts", "strings", "numbers", "nested arrays", "shape"],
)
def test_absurd_sizes_are_refused_at_once(rest: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + rest)
    with pytest.raises(ModelLoadError, match="not a whole GGUF file"):
        load_model(path, torch.float32)


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ModelLoadError, match="does not begin with GGUF"):
        load_model(path, torch.float32)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="No such file"):
        load_model(tmp_path / "model.gguf", torch.float32)


def test_an_unknown_architecture_is_refused_by_name(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "rwkv7")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelLoadError, match="'rwkv7'"):
        load_model(tmp_path / "model.gguf", torch.float32)


def test_a_file_without_a_tokenizer_we_read_is_refused(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "model.gguf", save_random_model(tmp_path, "llama", {"num_key_value_heads": 2}))
    with pytest.raises(ModelLoadError, match="pre-tokenizer None"):
        load_tokenizer(path)
