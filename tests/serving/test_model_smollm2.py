"""SmolLM2 in our decoder against the same file in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from readahead_serving.model.decoder import Decoder
from readahead_serving.model.linear import LinearForms, PackedLinear, PlainLinear, Weights, choose_forms
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_config
from readahead_serving.model.reference_attention import ReferenceAttention
from tests.serving.decoding import all_logits, decode_greedily

NEAR_TIE = 0.5
"""Logits this close may change places in bfloat16: its step between 16 and 32 is 0.125."""


@pytest.fixture(scope="module")
def float32(smollm2_path: Path) -> Decoder:
    return load_model(smollm2_path, torch.float32).decoder


@torch.inference_mode()
def oracle_logits(model: Any, token_ids: list[int]) -> torch.Tensor:
    logits: torch.Tensor = model(torch.tensor([token_ids])).logits[0].float()
    return logits


def test_float32_chooses_every_token_that_transformers_chooses(
    float32: Decoder, prompt_ids: list[list[int]], hf_continuations: list[list[int]]
) -> None:
    for prompt, theirs in zip(prompt_ids, hf_continuations, strict=True):
        # one pass over the whole text shows the choice after every prefix of it
        choices = all_logits(float32, prompt + theirs)[len(prompt) - 1 : -1].argmax(-1)
        assert choices.tolist() == theirs, prompt


def test_float32_decodes_step_by_step_to_the_same_tokens(
    float32: Decoder, prompt_ids: list[list[int]], hf_continuations: list[list[int]]
) -> None:
    for number in (2, 5):
        assert decode_greedily(float32, prompt_ids[number], 64) == hf_continuations[number]


def test_float32_logits_are_those_of_transformers(
    float32: Decoder, hf_smollm2: Any, prompt_ids: list[list[int]]
) -> None:
    torch.testing.assert_close(
        all_logits(float32, prompt_ids[-1]), oracle_logits(hf_smollm2, prompt_ids[-1]), atol=2e-3, rtol=1e-4
    )


@pytest.fixture(scope="module")
def exact(
    hf_smollm2: Any, prompt_ids: list[list[int]], hf_continuations: list[list[int]]
) -> list[tuple[list[int], torch.Tensor]]:
    """Every other prompt with its continuation, and transformers' logits for the continuation."""
    pairs = list(zip(prompt_ids, hf_continuations, strict=True))[::2]
    return [(ids + more, oracle_logits(hf_smollm2, ids + more)[len(ids) - 1 : -1].clone()) for ids, more in pairs]


def assert_parts_only_at_near_ties(decoder: Decoder, exact: list[tuple[list[int], torch.Tensor]]) -> None:
    for text, logits in exact:
        chosen = all_logits(decoder, text)[-len(logits) - 1 : -1].argmax(-1, keepdim=True)
        gaps = logits.max(-1).values - logits.gather(-1, chosen).squeeze(-1)
        assert gaps.max() < NEAR_TIE, (text, gaps)


@pytest.mark.parametrize("linear", [PlainLinear, PackedLinear])
def test_bfloat16_parts_from_transformers_only_at_near_ties(
    smollm2_path: Path, exact: list[tuple[list[int], torch.Tensor]], linear: type[PlainLinear | PackedLinear]
) -> None:
    if linear is PackedLinear and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this CPU does not multiply bfloat16")
    forms = LinearForms(linear, linear, torch.bfloat16)
    assert_parts_only_at_near_ties(load_model(smollm2_path, torch.bfloat16, forms).decoder, exact)


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_quantised_weights_part_from_transformers_only_at_near_ties(
    smollm2_path: Path, exact: list[tuple[list[int], torch.Tensor]], weights: Weights
) -> None:
    forms = choose_forms(torch.bfloat16, weights)
    assert_parts_only_at_near_ties(load_model(smollm2_path, torch.bfloat16, forms).decoder, exact)


def test_tokens_may_come_in_any_pieces(float32: Decoder, prompt_ids: list[list[int]]) -> None:
    prompt = prompt_ids[-1]
    whole = all_logits(float32, prompt)[-1]
    attention = ReferenceAttention()
    for start, end in ((0, 1), (1, 40), (40, len(prompt))):
        rows = torch.tensor([end - start - 1])
        last = float32.forward(torch.tensor(prompt[start:end]), torch.arange(start, end), attention, rows)
    assert attention.num_cached == len(prompt)
    torch.testing.assert_close(last[0], whole, atol=1e-3, rtol=1e-4)


def test_logits_come_only_for_the_rows_asked_for(smollm2_path: Path, prompt_ids: list[list[int]]) -> None:
    decoder = load_model(smollm2_path, torch.bfloat16).decoder
    prompt = prompt_ids[3]
    positions = torch.arange(len(prompt))
    some = decoder.forward(torch.tensor(prompt), positions, ReferenceAttention(), torch.tensor([4, 1]))
    assert some.dtype is torch.float32
    torch.testing.assert_close(some, all_logits(decoder, prompt)[[4, 1]], atol=0.3, rtol=0.02)


def test_the_shape_is_read_from_the_file(smollm2_path: Path) -> None:
    config = load_config(smollm2_path)
    assert (config.family, config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (
        "llama",
        30,
        9,
        3,
        64,
    )
    assert (config.vocab_size, config.max_positions, config.eos_token_ids) == (49152, 8192, (2,))
