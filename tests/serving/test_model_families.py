"""Every family on tiny random checkpoints, against transformers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from readahead_serving.errors import ModelLoadError
from readahead_serving.model.linear import LinearFactory, LinearForms, PackedLinear, PlainLinear
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_config
from tests.serving.decoding import all_logits

TOKEN_IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]
SHAPE = {
    "vocab_size": 101,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "max_position_embeddings": 64,
    "rope_theta": 5000.0,
}
ROPE = {"rope_theta": 5000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
SMOLLM3 = {"num_key_value_heads": 2, "num_hidden_layers": 5, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama, as many KV heads as heads": ("llama", {"num_key_value_heads": 6}),
    "llama, two KV heads": ("llama", {"num_key_value_heads": 2}),
    "llama, one KV head": ("llama", {"num_key_value_heads": 1}),
    "llama, tied": ("llama", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "llama, biased attention": ("llama", {"num_key_value_heads": 2, "attention_bias": True}),
    "llama, wide heads": ("llama", {"num_key_value_heads": 2, "head_dim": 16}),
    "llama, linear rope": (
        "llama",
        {"rope_parameters": ROPE | {"rope_type": "linear", "factor": 2.0}, "num_key_value_heads": 3},
    ),
    "llama, dynamic rope": ("llama", {"rope_parameters": ROPE | {"rope_type": "dynamic", "factor": 2.0}}),
    "llama, llama3 rope": (
        "llama",
        {
            "rope_parameters": ROPE
            | {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
            "num_key_value_heads": 2,
        },
    ),
    "llama, yarn rope": ("llama", {"rope_parameters": ROPE | YARN}),
    "llama, yarn rope with its own attention factor": (
        "llama",
        {"rope_parameters": ROPE | YARN | {"attention_factor": 0.8, "truncate": False, "beta_fast": 8.0}},
    ),
    "llama, yarn rope with mscale": (
        "llama",
        {"rope_parameters": ROPE | YARN | {"mscale": 1.0, "mscale_all_dim": 0.5}},
    ),
    "llama, biased MLP": ("llama", {"mlp_bias": True}),
    "mistral, wide heads": ("mistral", {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": None}),
    "mistral, window as long as the text": ("mistral", {"num_key_value_heads": 2, "sliding_window": 20}),
    "qwen2, tied": ("qwen2", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "qwen2, untied": ("qwen2", {"num_key_value_heads": 3}),
    "qwen2, yarn rope": ("qwen2", {"num_key_value_heads": 2, "rope_parameters": ROPE | YARN}),
    "qwen3, tied": ("qwen3", {"num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True}),
    "qwen3, untied and biased": ("qwen3", {"num_key_value_heads": 3, "head_dim": 8, "attention_bias": True}),
    "qwen3, one KV head": ("qwen3", {"num_key_value_heads": 1, "head_dim": 32}),
    "smollm3, tied": ("smollm3", SMOLLM3 | {"tie_word_embeddings": True}),
    "smollm3, untied and biased": ("smollm3", SMOLLM3 | {"tie_word_embeddings": False, "attention_bias": True}),
    "smollm3, its own list of layers": ("smollm3", SMOLLM3 | {"no_rope_layers": [0, 1, 1, 0, 1]}),
    "smollm3, every second layer": ("smollm3", SMOLLM3 | {"no_rope_layer_interval": 2}),
}


def save_random_model(folder: Path, model_type: str, changes: dict[str, Any], **saving: Any) -> Any:
    """Writes a random checkpoint whose norms and biases are random too; returns the model."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(7)
    config = AutoConfig.for_model(model_type, **(SHAPE | changes))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (parameter.dim() == 1))
    model.save_pretrained(folder, **saving)
    return model


@torch.inference_mode()
def oracle(model: Any) -> torch.Tensor:
    logits: torch.Tensor = model(torch.tensor([TOKEN_IDS])).logits[0]
    return logits


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_random_checkpoint_gives_the_logits_of_transformers(variant: str, tmp_path: Path) -> None:
    model = save_random_model(tmp_path, *VARIANTS[variant])
    ours = all_logits(load_model(tmp_path, torch.float32).decoder, TOKEN_IDS)
    torch.testing.assert_close(ours, oracle(model), atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("linear", [PlainLinear, PackedLinear])
def test_biases_survive_every_kind_of_linear_layer(linear: LinearFactory, tmp_path: Path) -> None:
    if linear is PackedLinear and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this CPU does not multiply bfloat16")
    model = save_random_model(tmp_path, "qwen2", {"num_key_value_heads": 2})
    ours = all_logits(
        load_model(tmp_path, torch.bfloat16, LinearForms(linear, linear, torch.bfloat16)).decoder, TOKEN_IDS
    )
    theirs = oracle(model)
    assert (ours - theirs).norm() / theirs.norm() < 0.05


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    model = save_random_model(tmp_path, "llama", {"num_key_value_heads": 2}, max_shard_size="60KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    ours = all_logits(load_model(tmp_path, torch.float32).decoder, TOKEN_IDS)
    torch.testing.assert_close(ours, oracle(model), atol=2e-4, rtol=2e-4)


def test_generation_config_says_what_ends_a_completion(tmp_path: Path) -> None:
    save_random_model(tmp_path, "llama", {"eos_token_id": 5})
    assert load_config(tmp_path).eos_token_ids == (5,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    assert load_config(tmp_path).eos_token_ids == (7, 9)


def test_a_sliding_window_is_the_context_window(tmp_path: Path) -> None:
    model = save_random_model(tmp_path, "mistral", {"num_key_value_heads": 2, "sliding_window": 12})
    loaded = load_model(tmp_path, torch.float32)
    assert loaded.config.max_positions == 12
    ours = all_logits(loaded.decoder, TOKEN_IDS[:12])
    torch.testing.assert_close(ours, oracle(model)[:12], atol=2e-4, rtol=2e-4)


def test_a_sliding_window_that_is_switched_off_limits_nothing(tmp_path: Path) -> None:
    save_random_model(tmp_path, "qwen2", {"num_key_value_heads": 2, "sliding_window": 12})
    edit_config(tmp_path, sliding_window=12)
    assert load_config(tmp_path).max_positions == 64
    edit_config(tmp_path, use_sliding_window=True)
    assert load_config(tmp_path).max_positions == 12


def test_yarn_stretches_the_context_window(tmp_path: Path) -> None:
    save_random_model(tmp_path, "qwen2", {"num_key_value_heads": 2})
    rope = ROPE | YARN | {"original_max_position_embeddings": 64}
    edit_config(tmp_path, rope_parameters=rope)
    assert load_config(tmp_path).max_positions == 256


@pytest.mark.parametrize(
    "variant", ["llama, llama3 rope", "mistral, wide heads", "qwen2, tied", "qwen3, tied", "smollm3, tied"]
)
def test_bfloat16_stays_near_float32(variant: str, tmp_path: Path) -> None:
    model = save_random_model(tmp_path, *VARIANTS[variant])
    ours, theirs = all_logits(load_model(tmp_path, torch.bfloat16).decoder, TOKEN_IDS), oracle(model)
    assert (ours - theirs).norm() / theirs.norm() < 0.05


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "mamba"}, "mamba"),
        ({"hidden_size": "many"}, "hidden_size"),
        ({"num_key_value_heads": 4}, "4 KV heads"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "original_max_position_embeddings"),
        ({"rope_parameters": {"rope_type": "longrope", "factor": 4.0}}, "longrope"),
        ({"rope_parameters": "yarn"}, "not an object"),
        ({"vocab_size": 102}, "model.embed_tokens.weight"),
        ({"num_hidden_layers": 4}, "model.layers.3"),
        ({"num_hidden_layers": 2}, "no place in the decoder"),
        ({"attention_bias": True}, "bias"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_by_name(changes: dict[str, Any], named: str, tmp_path: Path) -> None:
    save_random_model(tmp_path, "llama", {"num_key_value_heads": 2})
    edit_config(tmp_path, **changes)
    with pytest.raises(ModelLoadError, match=named):
        load_model(tmp_path, torch.float32)


def test_a_truncated_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_random_model(tmp_path, "llama", {})
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelLoadError, match=r"model\.safetensors is not a whole"):
        load_model(tmp_path, torch.float32)


def test_weights_that_are_pickles_are_refused_with_the_way_out(tmp_path: Path) -> None:
    save_random_model(tmp_path, "llama", {})
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelLoadError, match="Convert them to safetensors"):
        load_model(tmp_path, torch.float32)


def test_a_missing_shard_is_refused(tmp_path: Path) -> None:
    save_random_model(tmp_path, "llama", {}, max_shard_size="60KB")
    sorted(tmp_path.glob("model-*.safetensors"))[1].unlink()
    with pytest.raises(ModelLoadError, match=r"model-00002-.* is missing"):
        load_model(tmp_path, torch.float32)


def test_an_index_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    save_random_model(tmp_path / "model", "llama", {})
    shutil.copy(tmp_path / "model" / "model.safetensors", tmp_path / "outside.safetensors")
    index = tmp_path / "model" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"lm_head.weight": "../outside.safetensors"}}))
    with pytest.raises(ModelLoadError, match="not a file of its folder"):
        load_model(tmp_path / "model", torch.float32)


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        load_model(tmp_path / "nowhere", torch.float32)
