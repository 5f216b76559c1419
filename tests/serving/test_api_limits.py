"""What one request and one tenant may take of a server, over its HTTP surface and a real engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from readahead_serving.api.app import create_app
from readahead_serving.api.models import LanguageModel, Models
from readahead_serving.backends.native import NativeEngine
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.settings import ServingSettings
from tests.serving.generation import until
from tests.serving.tiny_model import save_tiny_model

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = ServingSettings(
    dtype="float32",
    kv_cache_bytes=16 << 20,
    threads=1,
    max_running=2,
    max_waiting=2,
    tenant_share=0.5,
    max_prompt_tokens=100,
    max_completion_tokens=8000,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("limits") / "tiny")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(folder: Path) -> AsyncIterator[NativeEngine]:
    engine = await NativeEngine.start(SETTINGS, folder, load_tokenizer(folder))
    yield engine
    await engine.close()


@pytest_asyncio.fixture(loop_scope="module")
async def client(engine: NativeEngine, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    language = LanguageModel("tiny", engine, load_tokenizer(folder), engine.max_model_len)
    app = create_app(SETTINGS, Models(language=language))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tiny") as client:
        yield client


async def complete(client: httpx.AsyncClient, salt: str = "", **fields: Any) -> httpx.Response:
    body = {"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 2, "ignore_eos": True, **fields}
    return await client.post("/v1/completions", json=body, headers={"x-readahead-salt": salt})


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"prompt": [5] * 101}, "prompt", "prompt_too_long"),
        ({"max_tokens": 8001}, "max_tokens", "invalid_value"),
        ({"prompt": [[5]] * 3}, "n", "too_many_completions"),
    ],
)
async def test_what_no_request_may_ask_for_is_refused_by_name(
    fields: dict[str, Any], param: str, code: str, client: httpx.AsyncClient
) -> None:
    refused = await complete(client, **fields)
    assert refused.status_code == 400
    assert (refused.json()["error"]["param"], refused.json()["error"]["code"]) == (param, code)
    assert (await complete(client, prompt=[5] * 100)).status_code == 200


async def test_a_tenant_that_fills_its_share_waits_while_others_are_served(
    engine: NativeEngine, client: httpx.AsyncClient
) -> None:
    own = [asyncio.create_task(complete(client, "greedy", max_tokens=8000)) for _ in range(2)]
    await until(lambda: engine.stats().running + engine.stats().waiting == 2, "both of the tenant's requests")
    more = await complete(client, "greedy")
    assert (more.status_code, more.json()["error"]["code"]) == (429, "engine_busy")
    assert int(more.headers["retry-after"]) >= 1
    assert "your share" in more.json()["error"]["message"]
    assert (await complete(client, "modest")).status_code == 200
    assert not any(task.done() for task in own)
    for task in own:
        task.cancel()
    await asyncio.gather(*own, return_exceptions=True)
    await until(lambda: engine.stats().running + engine.stats().waiting == 0, "an idle engine")
    assert (await complete(client, "greedy")).status_code == 200
