"""GGUF files, whole and damaged, written by the `gguf` package."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.gguf_file import GGUFFile
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_config, load_tokenizer
from tests.serving.decoding import all_logits
from tests.serving.test_model_families import TOKEN_IDS, VARIANTS, oracle, save_random_model

HF_TO_GGUF = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
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


ARCHITECTURES = {"mistral": "llama"}
"""Where llama.cpp's name differs from transformers'."""
INTERLEAVED = ("llama", "mistral", "smollm3")


def write_gguf(
    path: Path,
    model: Any,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    more: Callable[[gguf.GGUFWriter], None] | None = None,
) -> Path:
    """Converts a transformers model; the tokenizer is left out. `more` adds what the test is about."""
    config = model.config
    writer = gguf.GGUFWriter(path, ARCHITECTURES.get(config.model_type, config.model_type))
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    if head_dim := getattr(config, "head_dim", None):
        writer.add_key_length(head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if more:
        more(writer)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        values = tensor.numpy()
        if config.model_type in INTERLEAVED and ("q_proj" in name or "k_proj" in name):
            is_query = "q_proj" in name
            values = pairs_from_halves(values, config.num_attention_heads if is_query else config.num_key_value_heads)
        stored = kind if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def assert_same_logits(path: Path, model: Any) -> None:
    ours = all_logits(load_model(path, torch.float32).decoder, TOKEN_IDS)
    torch.testing.assert_close(ours, oracle(model), atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize(
    "variant",
    [
        "llama, two KV heads",
        "llama, biased attention",
        "llama, biased MLP",
        "mistral, wide heads",
        "qwen2, untied",
        "qwen3, tied",
        "qwen3, untied and biased",
        "smollm3, tied",
    ],
)
def test_a_gguf_file_gives_the_logits_of_the_model_it_was_made_from(variant: str, tmp_path: Path) -> None:
    model = save_random_model(tmp_path, *VARIANTS[variant])
    assert_same_logits(write_gguf(tmp_path / "model.gguf", model), model)


def test_llama_3_stretches_by_a_tensor_of_divisors(tmp_path: Path) -> None:
    model = save_random_model(tmp_path, *VARIANTS["llama, llama3 rope"])
    stretched = model.model.rotary_emb.inv_freq
    half = len(stretched)
    plain = 5000.0 ** -(torch.arange(half) / half)

    def divisors(writer: gguf.GGUFWriter) -> None:
        writer.add_tensor("rope_freqs.weight", (plain / stretched).numpy())

    assert_same_logits(write_gguf(tmp_path / "model.gguf", model, more=divisors), model)


def test_yarn_is_read_from_the_metadata(tmp_path: Path) -> None:
    model = save_random_model(tmp_path, *VARIANTS["llama, yarn rope"])

    def yarn(writer: gguf.GGUFWriter) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(16)

    assert_same_logits(write_gguf(tmp_path / "model.gguf", model, more=yarn), model)


def test_a_sliding_window_is_the_context_window(tmp_path: Path) -> None:
    model = save_random_model(tmp_path, "llama", {"num_key_value_heads": 2})
    path = write_gguf(tmp_path / "model.gguf", model, more=lambda writer: writer.add_sliding_window(24))
    assert load_config(path).max_positions == 24


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
