"""Weights held in the blocks of their file: every result is that of the converted weight, to the bit."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead_serving.kernels.blocks import Blocks
from readahead_serving.kernels.build import Level
from readahead_serving.model.block_linear import BlockLinear
from readahead_serving.model.gguf_blocks import read_blocks
from readahead_serving.model.linear import KernelLinear, Weights, choose_forms
from readahead_serving.model.loader import load_model
from readahead_serving.model.quantize import quantize_blocks
from tests.serving.decoding import all_logits
from tests.serving.kernel_levels import LEVELS, kernels_of
from tests.serving.test_model_families import TOKEN_IDS, VARIANTS, save_random_model
from tests.serving.test_model_gguf import write_gguf

KINDS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
HALVES = {"Q4_0": 1, "Q4_1": 2, "Q5_0": 1, "Q5_1": 2, "Q8_0": 1, "Q4_K": 2, "Q5_K": 2, "Q6_K": 1}
"""How many numbers in float16 a type's block has."""


def stored(kind: str, outputs: int, inputs: int, seed: int = 0) -> np.ndarray:
    """A tensor's bytes: all numbers and scales that there are, of both signs."""
    dice = np.random.default_rng(seed)
    block, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    raw = dice.integers(0, 256, (outputs * inputs // block, nbytes), np.uint8)
    halves = dice.normal(0, 0.01, (len(raw), HALVES[kind])).astype(np.float16).view(np.uint8)
    at = nbytes - 2 if kind == "Q6_K" else 0
    raw[:, at : at + halves.shape[1]] = halves
    return raw.reshape(outputs, -1)


def blocks_of(kind: str, outputs: int, inputs: int, seed: int = 0) -> Blocks:
    blocks = read_blocks(stored(kind, outputs, inputs, seed), GGMLQuantizationType[kind])
    assert blocks is not None
    return blocks


@pytest.mark.parametrize("kind", KINDS)
def test_a_files_numbers_and_scales_give_the_values_of_its_dequantisation_to_the_bit(kind: str) -> None:
    raw = stored(kind, 3, 512)
    blocks = read_blocks(raw, GGMLQuantizationType[kind])
    assert blocks is not None
    assert np.array_equal(blocks.values().numpy(), quants.dequantize(raw, GGMLQuantizationType[kind]))


def test_types_of_other_make_are_left_to_be_converted() -> None:
    assert read_blocks(np.zeros((32, 64), np.uint8), GGMLQuantizationType.F16) is None
    assert read_blocks(np.zeros((32, 84), np.uint8), GGMLQuantizationType.Q2_K) is None


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(LEVELS),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    st.sampled_from([*range(1, 20), 47, 48, 49, 200]),
    st.integers(1, 3),
    st.booleans(),
)
def test_products_are_those_of_the_converted_weight_to_the_bit(
    level: Level, kinds: list[str], rows: int, outputs: int, has_bias: bool
) -> None:
    torch.manual_seed(rows)
    kernels = kernels_of(level)
    parts = [blocks_of(kind, 32 * outputs, 512, seed) for seed, kind in enumerate(kinds)]
    bias = torch.randn(32 * outputs * len(kinds)) if has_bias else None
    converted = KernelLinear(kernels, torch.cat([part.values() for part in parts]).bfloat16(), bias)
    x = torch.randn(rows, 512).bfloat16()
    assert torch.equal(BlockLinear(kernels, parts, bias)(x), converted(x))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_converted_weight(kind: str, level: Level) -> None:
    blocks, ids = blocks_of(kind, 96, 256), torch.tensor([95, 0, 31, 32, 95])
    plain = blocks.values().bfloat16()
    assert torch.equal(BlockLinear(kernels_of(level), [blocks], None).rows(ids), plain[ids])
    assert torch.equal(KernelLinear(kernels_of(level), plain, None).rows(ids), plain[ids])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("variant", ["llama, two KV heads", "qwen2, untied", "qwen3, untied and biased"])
def test_a_file_gives_the_same_logits_held_as_it_is_and_converted(variant: str, level: Level, tmp_path: Path) -> None:
    family, shape = VARIANTS[variant]
    sizes = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 4, "head_dim": 32, "vocab_size": 256}
    model = save_random_model(tmp_path, family, shape | sizes | {"num_key_value_heads": 2})
    path = write_gguf(tmp_path / "model.gguf", model, gguf.GGMLQuantizationType.Q4_1)
    held, converted = (
        load_model(path, torch.bfloat16, choose_forms(torch.bfloat16, weights, kernels_of(level))).decoder
        for weights in ("auto", "bf16")
    )
    assert isinstance(held._weights.layers[0].qkv, BlockLinear) and isinstance(held._weights.embedding, BlockLinear)
    assert torch.equal(all_logits(held, TOKEN_IDS), all_logits(converted, TOKEN_IDS))


@pytest.mark.parametrize("level", LEVELS)
def test_the_default_model_gives_the_same_logits_held_as_it_is_and_converted(level: Level, smollm2_path: Path) -> None:
    ids = [(7919 * number) % 49_000 for number in range(20)]
    forms = [choose_forms(torch.bfloat16, weights, kernels_of(level)) for weights in ("auto", "bf16")]
    held, converted = (all_logits(load_model(smollm2_path, torch.bfloat16, form).decoder, ids) for form in forms)
    assert torch.equal(held, converted)


@pytest.mark.parametrize(("weights", "most_off"), [("int8", 0.006), ("int4", 0.09)])
@pytest.mark.parametrize("level", LEVELS)
def test_weights_that_a_setting_makes_small_are_near_the_exact_ones(
    level: Level, weights: Weights, most_off: float
) -> None:
    torch.manual_seed(5)
    weight, bias, x = torch.randn(192, 256) * 0.05, torch.randn(192), torch.randn(65, 256).bfloat16()
    layer = choose_forms(torch.bfloat16, weights, kernels_of(level)).layers(weight, bias)
    assert isinstance(layer, BlockLinear)
    exact = x.float() @ weight.t() + bias
    assert (layer(x).float() - exact).norm() / exact.norm() < most_off
    for count in (1, 2, 5, 16, 64):
        assert torch.equal(layer(x)[:count], layer(x[:count])), "a token's result is its own"


def test_weights_of_zeros_stay_zeros() -> None:
    for bits in (8, 4):
        assert not quantize_blocks(torch.zeros(32, 64), bits).values().any()


@pytest.mark.parametrize("level", LEVELS)
def test_a_shape_that_blocks_lack_is_multiplied_by_pytorch(level: Level) -> None:
    torch.manual_seed(5)
    weight, x = torch.randn(100, 64), torch.randn(5, 64).bfloat16()
    for weights in ("int8", "int4"):
        layer = choose_forms(torch.bfloat16, weights, kernels_of(level)).layers(weight, None)
        exact = x.float() @ weight.t()
        assert (layer(x).float() - exact).norm() / exact.norm() < 0.01
