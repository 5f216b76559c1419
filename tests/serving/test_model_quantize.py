"""Weights in 8 and 4 bits: how far off they are, and that no token depends on its neighbours."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from readahead_serving.backends.native import NativeEngine
from readahead_serving.engine.messages import EngineConfig
from readahead_serving.model.linear import Linear, LinearFactory, Weights, choose_forms
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.model.quantize import GROUP, Int4Linear, Int8Linear, fits_int4, quantize_groups
from readahead_serving.settings import ServingSettings
from tests.serving.decoding import all_logits, decode_greedily
from tests.serving.generation import request, tokens_of
from tests.serving.test_backends_transformers import save_byte_tokenizer
from tests.serving.test_model_families import TOKEN_IDS, VARIANTS, oracle, save_random_model

MOST_OFF = {"int8": 0.01, "int4": 0.12}
"""Relative error of one multiplication by normally distributed weights."""


def layer_of(weights: Weights, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Linear:
    factory: LinearFactory = choose_forms(dtype, weights).layers
    return factory(weight, bias)


def error(ours: Tensor, exact: Tensor) -> float:
    return float((ours.float() - exact).norm() / exact.norm())


@pytest.fixture
def weight() -> Tensor:
    torch.manual_seed(5)
    return torch.randn(192, 256) * 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_a_multiplication_is_near_the_exact_one(weights: Weights, dtype: torch.dtype, weight: Tensor) -> None:
    x, bias = torch.randn(33, 256), torch.randn(192)
    y = layer_of(weights, weight, bias, dtype)(x.to(dtype))
    assert y.dtype is dtype
    assert error(y, x @ weight.t() + bias) < MOST_OFF[weights]


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("count", [1, 2, 5, 16, 64])
def test_a_token_gets_the_same_bits_in_every_batch(weights: Weights, count: int, weight: Tensor) -> None:
    layer, x = layer_of(weights, weight, None, torch.bfloat16), torch.randn(65, 256).bfloat16()
    assert torch.equal(layer(x)[:count], layer(x[:count]))
    assert torch.equal(layer(x)[count:], layer(x[count:]))


def test_an_outlier_does_not_drown_the_rest_of_its_token(weight: Tensor) -> None:
    x = torch.randn(4, 256)
    x[:, 7] *= 1000
    quiet = weight.clone()
    quiet[:, 7] = 0
    assert error(Int8Linear(quiet, None)(x), x @ quiet.t()) < 0.1


def test_tokens_of_zeros_stay_zeros(weight: Tensor) -> None:
    assert not Int8Linear(weight, None)(torch.zeros(2, 256)).any()
    assert not Int8Linear(torch.zeros(16, 64), None)(torch.randn(2, 64)).any()


def test_what_is_no_number_stays_none(weight: Tensor) -> None:
    assert Int8Linear(weight, None)(torch.full((1, 256), torch.nan)).isnan().all()


def test_weights_of_sixteen_values_a_group_lose_next_to_nothing() -> None:
    torch.manual_seed(5)
    step, least = torch.rand(64, 8, 1) * 0.01, torch.randn(64, 8, 1) * 0.05
    steps = torch.randint(0, 16, (64, 8, GROUP))
    steps[..., 0], steps[..., 1] = 0, 15
    weight = (least + step * steps).flatten(1)
    quantised, _ = quantize_groups(weight, torch.float32)
    assert torch.equal(quantised, steps.flatten(1).int())
    x = torch.randn(3, weight.shape[1])
    assert error(Int4Linear(weight, None, torch.float32)(x), x @ weight.t()) < 1e-5


@pytest.mark.parametrize("shape", [(100, 64), (128, 40)])
def test_shapes_that_the_4_bit_kernel_lacks_are_stored_in_8_bits(shape: tuple[int, int]) -> None:
    torch.manual_seed(5)
    weight, x = torch.randn(*shape), torch.randn(5, shape[1])
    assert not fits_int4(weight)
    assert error(layer_of("int4", weight, None, torch.float32)(x), x @ weight.t()) < MOST_OFF["int8"]


@pytest.mark.parametrize("isa", ["AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI"])
def test_older_processors_multiply_without_overflow(isa: str) -> None:
    script = (
        "import torch\n"
        "from readahead_serving.model.quantize import Int8Linear\n"
        "torch.manual_seed(5)\n"
        "w, x = torch.rand(64, 256), torch.rand(8, 256)\n"
        "exact = x @ w.t()\n"
        "print(float((Int8Linear(w, None)(x) - exact).norm() / exact.norm()))"
    )
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": isa}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.005


@pytest.mark.parametrize("variant", ["qwen2, tied", "qwen3, untied and biased", "llama, biased MLP"])
def test_models_with_biases_run_in_8_bits(variant: str, tmp_path: Path) -> None:
    model = save_random_model(tmp_path, *VARIANTS[variant])
    loaded = load_model(tmp_path, torch.float32, choose_forms(torch.float32, "int8"))
    assert error(all_logits(loaded.decoder, TOKEN_IDS), oracle(model)) < 0.05


@pytest.mark.parametrize(("weights", "dtype"), [("bf16", torch.float32), ("fp32", torch.bfloat16)])
def test_weights_may_have_another_precision_than_activations(
    weights: Weights, dtype: torch.dtype, tmp_path: Path
) -> None:
    model = save_random_model(tmp_path, *VARIANTS["qwen2, tied"])
    loaded = load_model(tmp_path, dtype, choose_forms(dtype, weights))
    assert loaded.decoder.dtype is dtype
    assert error(all_logits(loaded.decoder, TOKEN_IDS), oracle(model)) < 0.05


@pytest.mark.parametrize("weights", ["int8", "int4"])
async def test_the_engine_process_computes_what_the_quantised_decoder_does(weights: Weights, tmp_path: Path) -> None:
    shape = {"vocab_size": 256, "hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 4}
    save_random_model(tmp_path, "llama", shape | {"num_key_value_heads": 2, "eos_token_id": 255})
    save_byte_tokenizer(tmp_path)
    decoder = load_model(tmp_path, torch.float32, choose_forms(torch.float32, weights)).decoder
    prompts = [TOKEN_IDS, TOKEN_IDS[:7], [200, 100, 50] * 9]
    expected = [decode_greedily(decoder, prompt, 8) for prompt in prompts]
    settings = ServingSettings(dtype="float32", weights=weights, kv_cache_bytes=4 << 20, threads=1)
    engine = await NativeEngine.start(settings, tmp_path, load_tokenizer(tmp_path))
    try:
        asked = [request(prompt, max_tokens=8, ignore_eos=True) for prompt in prompts]
        assert await asyncio.gather(*(tokens_of(engine, one) for one in asked)) == expected
    finally:
        await engine.close()


def test_the_settings_name_the_forms_that_the_engine_knows() -> None:
    def named(model: Any) -> Any:
        return model.__annotations__["weights"]

    assert ServingSettings().weights == "auto"
    assert named(ServingSettings) == named(EngineConfig)
