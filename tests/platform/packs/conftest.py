"""A gateway over a real LLM server's API and shelf of packs, with stand-ins where a model would compute."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from readahead_platform.gateway.drain import Drain
from readahead_platform.ports import bind_gateway
from readahead_platform.service import serving
from readahead_serving.api.app import create_app
from readahead_serving.api.models import LanguageModel, Models
from readahead_serving.settings import ServingSettings
from tests.platform.gateway import Gateway, running_gateway
from tests.platform.packs.asking import ANSWER
from tests.platform.running import free_port
from tests.serving.packs import Bench, ByteEncoder, shelf_at
from tests.serving.scripted import ScriptedEngine, two_words


class PackTokenizer(ByteEncoder):
    """What the API needs beside packs."""

    vocab_size = 257
    knows_tools = False

    def encode(self, text: str, *, allow_special: bool) -> list[int]:
        return list(text.encode())

    def encode_prompt(self, text: str) -> list[int]:
        return list(text.encode())


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with shelf_at(tmp_path / "packs") as bench:
        yield bench


@pytest.fixture
async def llm_url(bench: Bench) -> AsyncIterator[str]:
    tokenizer: Any = PackTokenizer()
    model = LanguageModel("small", ScriptedEngine(two_words), tokenizer, 4096, bench.shelf)
    app = create_app(ServingSettings(), Models(language=model, expected=("small",)))
    port = free_port()
    async with serving(app, bind_gateway("127.0.0.1", port), Drain(0.2)):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
async def gateway(tmp_path: Path, llm_url: str) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path / "home", llm_url=llm_url) as running:
        running.llm.script = [ANSWER]
        yield running
