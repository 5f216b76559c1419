"""Before an engine says that it is ready it has been used once, and nothing of that is left in what it tells."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from readahead_serving.engine import warm_up as warming
from readahead_serving.engine.attention import BatchAttention
from readahead_serving.engine.messages import EngineConfig
from readahead_serving.engine.process import build_core
from readahead_serving.engine.scheduler.cost import StepCosts
from readahead_serving.errors import ModelLoadError
from readahead_serving.model import tokenizer as tokenizers
from readahead_serving.model.loader import load_model
from readahead_serving.model.metadata import load_tokenizer
from tests.serving.test_model_families import save_random_model
from tests.serving.test_model_gguf import write_gguf
from tests.serving.tiny_engine import TinyEngine, random_decoder
from tests.serving.tiny_model import save_tiny_model


def config_of(model: Path, folder: Path) -> EngineConfig:
    return EngineConfig(
        model_path=str(model),
        dtype="float32",
        weights="auto",
        kernels="off",
        kernels_dir=str(folder),
        kv_cache_bytes=64 << 20,
        max_running=4,
        prefill_chunk_tokens=64,
        tbt_target_ms=150,
        tenant_share=1.0,
        threads=0,
        commands="",
        outputs="",
    )


def test_an_engine_that_has_loaded_has_made_steps_that_leave_no_trace(tmp_path: Path) -> None:
    core, loaded = build_core(config_of(save_tiny_model(tmp_path / "model"), tmp_path))
    assert loaded.warm_up_steps >= 2 * warming.OUTPUT_TOKENS - 1, "a prompt, a decode and a choice of both kinds"
    stats = core.stats()
    assert (stats.steps, stats.received, stats.running, stats.waiting) == (0, 0, 0, 0)
    assert (stats.prompt_tokens_computed, stats.completion_tokens, stats.prefix_hit_tokens) == (0, 0, 0)
    assert (stats.kv_tokens_used, stats.kv_tokens_cached, stats.pack_bytes) == (0, 0, 0)
    assert stats.costs == StepCosts(), "the first steps are slow: nothing is predicted by them"
    assert core.take_outputs() == []


def test_the_same_text_is_computed_whole_after_the_warm_up() -> None:
    decoder = random_decoder()
    used, fresh = TinyEngine(decoder), TinyEngine(decoder)
    assert warming.warm_up(decoder, BatchAttention, "random") > 0
    prompt = [1 + number for number in range(warming.PROMPT_TOKENS)]
    assert used.complete(prompt) == fresh.complete(prompt)
    assert used.executor.computed == fresh.executor.computed


@pytest.mark.parametrize("scale", [np.nan, np.inf, 1.0])
@pytest.mark.parametrize("tensor", ["blk.0.attn_v.weight", "blk.1.ffn_down.weight", "token_embd.weight"])
def test_a_model_whose_blocks_have_scales_that_are_no_numbers_does_not_load(
    tmp_path: Path, tensor: str, scale: float
) -> None:
    """The file is whole, so that only computing shows it. A scale that is wrong and a number is another model."""
    shape = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "tie_word_embeddings": True}
    path = write_gguf(tmp_path / "m.gguf", save_random_model(tmp_path, "llama", shape), gguf.GGMLQuantizationType.Q8_0)
    (offset,) = (int(held.data_offset) for held in gguf.GGUFReader(path).tensors if held.name == tensor)
    with path.open("r+b") as file:
        file.seek(offset)  # of the first block, which begins with its scale
        file.write(np.float16(scale).tobytes())
    decoder = load_model(path, torch.float32).decoder
    if np.isfinite(scale):
        assert warming.warm_up(decoder, BatchAttention, str(path)) > 0
        return
    with pytest.raises(ModelLoadError, match=r"m\.gguf gives logits that are not finite .* Download the model again"):
        warming.warm_up(decoder, BatchAttention, str(path))


def test_an_engine_over_such_weights_is_not_built(tmp_path: Path) -> None:
    path = save_tiny_model(tmp_path / "model")
    (weights,) = path.glob("*.safetensors")
    tensors = load_file(weights)
    tensors["model.norm.weight"][3] = torch.nan
    save_file(tensors, weights)
    with pytest.raises(ModelLoadError, match="model gives logits that are not finite"):
        build_core(config_of(path, tmp_path))


def test_a_tokenizer_that_is_warm_reads_its_vocabulary_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer(save_tiny_model(tmp_path / "model"))
    tokenizer.warm_up()

    def refuse(_: str) -> None:
        raise AssertionError("it is read a second time")

    monkeypatch.setattr(tokenizers, "TokenBound", refuse)
    monkeypatch.setattr(tokenizer, "_read_token", refuse)
    assert tokenizer.least_tokens("some text") >= 0
    assert tokenizer.token_bytes(65)
