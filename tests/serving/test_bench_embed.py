"""The measuring of embeddings, on a load that takes no time: what it reports, not how fast it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from readahead_serving.bench.embed.command import Sizes, measure_embedding, questions_over_http
from readahead_serving.settings import ServingSettings
from tests.serving.llm_server import LlmServer

TINY = Sizes(passages=6, turns=1, questions=2)


async def test_embedding_is_held_against_float32_and_a_missing_peer_is_told(
    minilm_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    metrics = (await measure_embedding(ServingSettings(), minilm_path, TINY))["metrics"]
    assert "pip install" in metrics["sentence_transformers"]["missing"]
    assert "times_sentence_transformers" not in metrics
    assert metrics["ours"]["passages_per_s"] > 0
    assert 0.999 <= metrics["ours"]["least_cosine_to_float32"] < 1, "in bfloat16 no passage's vector is quite the same"
    assert 0 < metrics["ours"]["question_ms"]["p50"] <= metrics["ours"]["question_ms"]["max"]


async def test_questions_are_timed_over_http_too(llm_server: LlmServer, minilm_path: Path) -> None:
    taken = await questions_over_http(llm_server.base_url, minilm_path.name, TINY)
    assert taken["p50"] is not None
    assert taken["max"] is not None
    assert 0 < taken["p50"] <= taken["max"]
