"""Models for the tests, fetched once through the store, and one LLM server that runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from readahead_retrieval.store.session import sqlite_url
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.model.store import ModelStore
from readahead_serving.model.tokenizer import Tokenizer
from tests.databases import fresh_postgres
from tests.platform.running import ROOT, RunningReadahead, running_readahead
from tests.serving.llm_server import LlmServer, running_server

# a busy machine is no failure
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind; a test that takes it runs on both."""
    if request.param == "sqlite":
        yield sqlite_url(tmp_path / "any.db")
        return
    with fresh_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def model_store() -> ModelStore:
    """The store that `readahead models pull` fills: READAHEAD_SERVING__MODELS_DIR, else models/ of the home."""
    home = Path(os.environ.get("READAHEAD_HOME", "~/.readahead"))
    return ModelStore(Path(os.environ.get("READAHEAD_SERVING__MODELS_DIR", home / "models")))


@pytest.fixture(scope="session")
def smollm2_path(model_store: ModelStore) -> Path:
    """SmolLM2-135M-Instruct, a GGUF file."""
    return model_store.ensure("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def minilm_path(model_store: ModelStore) -> Path:
    """all-MiniLM-L6-v2, a sentence-transformers folder."""
    return model_store.ensure("all-minilm-l6-v2")


@pytest.fixture(scope="session")
def llm_server(smollm2_path: Path, minilm_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlmServer]:
    """One LLM server with SmolLM2 and all-MiniLM-L6-v2, in float32, for all tests of its surface."""
    models_dir = minilm_path.parent
    with running_server(models_dir, tmp_path_factory.mktemp("llm_server") / "stderr.log") as server:
        yield server


@pytest.fixture(scope="session")
def readahead_up(
    smollm2_path: Path, minilm_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningReadahead]:
    """The whole service with the sample documents, as `readahead up` starts it; shared, so clean up after yourself."""
    home = tmp_path_factory.mktemp("home")
    with running_readahead(home, minilm_path.parent, "--samples", str(ROOT / "sample_docs")) as service:
        yield service


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_path: Path) -> Tokenizer:
    """SmolLM2's tokenizer, ours."""
    return load_tokenizer(smollm2_path)
