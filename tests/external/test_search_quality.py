"""Search on data sets that others published, through the same index, ranking and ingestion as the service.

Needs READAHEAD_TEST_DATA, a folder with retrieval/ (BEIR folders) and qa/ (PDFs with questions).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from readahead_platform.own_embedder import own_embedder
from readahead_retrieval.embedders.windowed import WindowedEmbedder
from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.evaluation.dataset import read_dataset
from readahead_retrieval.evaluation.documents import evaluate_documents
from readahead_retrieval.evaluation.passages import evaluate_dataset
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.tokens import TokenizerCounter
from readahead_serving.settings import ServingSettings

ROOT = Path(os.environ.get("READAHEAD_TEST_DATA", "nowhere"))
CANDIDATES = RetrievalSettings().candidates

pytestmark = [
    pytest.mark.skipif(not (ROOT / "retrieval").is_dir(), reason="READAHEAD_TEST_DATA names no folder with retrieval"),
    pytest.mark.timeout(3600),  # thousands of passages are embedded
]


class WithoutMeaning:
    """Stands in where only the words are measured: every text is the same to it."""

    model_id = "none"
    dimension = 8
    max_tokens = 256

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        return np.full((len(texts), self.dimension), self.dimension**-0.5, dtype=np.float32)


@pytest.fixture
def counter(minilm_path: Path) -> TokenizerCounter:
    return TokenizerCounter.from_file(minilm_path / "tokenizer.json")


@pytest.fixture
async def minilm(minilm_path: Path, counter: TokenizerCounter) -> AsyncIterator[Embedder]:
    """As the service computes it with its default settings: in bfloat16 where the processor does."""
    async with own_embedder(minilm_path, ServingSettings()) as embedder:
        yield WindowedEmbedder(embedder, counter)


async def _measured(name: str, embedder: Embedder, counter: TokenizerCounter | None = None) -> dict[str, float]:
    dataset = read_dataset(ROOT / "retrieval" / name)
    return (await evaluate_dataset(dataset, embedder, candidates=CANDIDATES, counter=counter)).metrics


@pytest.mark.parametrize(
    ("name", "measure", "least"),
    [
        ("scifact", "lexical_ndcg@10", 0.66),
        ("xquad-en", "lexical_recall@5", 0.97),
        ("kobest-boolq-dev", "lexical_recall@5", 0.85),
    ],
)
async def test_words_alone_find_what_is_asked_for(name: str, measure: str, least: float) -> None:
    assert (await _measured(name, WithoutMeaning()))[measure] >= least


async def test_an_engine_to_which_all_is_the_same_takes_nothing_from_the_other() -> None:
    metrics = await _measured("kobest-boolq-dev", WithoutMeaning())
    assert metrics["hybrid_ndcg@10"] == pytest.approx(metrics["lexical_ndcg@10"], abs=0.005)


async def test_english_and_korean_passages_are_found_with_the_english_embedding_model(
    minilm: Embedder, counter: TokenizerCounter
) -> None:
    xquad = await _measured("xquad-en", minilm, counter)
    assert xquad["hybrid_recall@5"] >= 0.97
    korean = await _measured("kobest-boolq-dev", minilm, counter)
    assert korean["hybrid_recall@5"] >= 0.95
    assert korean["hybrid_ndcg@10"] >= korean["lexical_ndcg@10"] - 0.001  # the dense side alone: below 0.1


async def test_claims_of_science_find_their_abstracts(minilm: Embedder, counter: TokenizerCounter) -> None:
    metrics = await _measured("scifact", minilm, counter)
    assert metrics["dense_ndcg@10"] >= 0.63
    assert metrics["hybrid_ndcg@10"] >= 0.70


async def test_questions_about_real_documents_find_the_page_of_the_evidence(
    minilm: Embedder, counter: TokenizerCounter, tmp_path: Path
) -> None:
    report = await evaluate_documents(ROOT / "qa", RetrievalSettings(home=tmp_path), minilm, counter)
    assert report.metrics["hit@5"] >= 0.9
