"""Oracles for the serving tests: the same model as `transformers` reads and runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.serving.prompts import PROMPTS

CONTINUATION_TOKENS = 64


@pytest.fixture(scope="session")
def hf_smollm2(smollm2_path: Path) -> Any:
    """SmolLM2 as a float32 `LlamaForCausalLM`, its weights read from the GGUF file by transformers' own code."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = AutoConfig.from_pretrained(smollm2_path.parent, gguf_file=smollm2_path.name)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    tensors = load_gguf_checkpoint(str(smollm2_path), return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert set(missing) <= {"lm_head.weight"}, missing
    assert not unexpected
    model.tie_weights()
    return model


@pytest.fixture(scope="session")
def hf_smollm2_tokenizer(smollm2_path: Path) -> Any:
    """SmolLM2's tokenizer as transformers builds it from the GGUF file."""
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2_path.parent, gguf_file=smollm2_path.name)
    # transformers forgets what "smollm" says about digits; the model's own tokenizer.json has it
    steps = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(steps)
    return tokenizer


@pytest.fixture(scope="session")
def prompt_ids(hf_smollm2_tokenizer: Any) -> list[list[int]]:
    """`PROMPTS` as transformers encodes them."""
    return [hf_smollm2_tokenizer.encode(prompt) for prompt in PROMPTS]


@pytest.fixture(scope="session")
def hf_continuations(hf_smollm2: Any, prompt_ids: list[list[int]]) -> list[list[int]]:
    """Transformers' greedy float32 continuation of each of `PROMPTS`, 64 tokens, ends of text ignored."""
    longest = max(map(len, prompt_ids))
    padded = torch.tensor([[0] * (longest - len(ids)) + ids for ids in prompt_ids])
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompt_ids])
    hf_smollm2.generation_config.eos_token_id = None
    out = hf_smollm2.generate(
        padded, attention_mask=mask, max_new_tokens=CONTINUATION_TOKENS, do_sample=False, pad_token_id=0
    )
    continuations: list[list[int]] = out[:, longest:].tolist()
    return continuations
