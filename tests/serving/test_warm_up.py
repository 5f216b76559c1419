"""Before an engine says that it is ready it has been used once, and nothing of that is left in what it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from readahead_serving.engine import warm_up as warming
from readahead_serving.engine.attention import BatchAttention
from readahead_serving.engine.messages import EngineConfig
from readahead_serving.engine.process import build_core
from readahead_serving.engine.scheduler.cost import StepCosts
from readahead_serving.model import tokenizer as tokenizers
from readahead_serving.model.metadata import load_tokenizer
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
    assert warming.warm_up(decoder, BatchAttention) > 0
    prompt = [1 + number for number in range(warming.PROMPT_TOKENS)]
    assert used.complete(prompt) == fresh.complete(prompt)
    assert used.executor.computed == fresh.executor.computed


def test_a_tokenizer_that_is_warm_reads_its_vocabulary_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer(save_tiny_model(tmp_path / "model"))
    tokenizer.warm_up()

    def refuse(_: str) -> None:
        raise AssertionError("it is read a second time")

    monkeypatch.setattr(tokenizers, "TokenBound", refuse)
    monkeypatch.setattr(tokenizer, "_read_token", refuse)
    assert tokenizer.least_tokens("some text") >= 0
    assert tokenizer.token_bytes(65)
