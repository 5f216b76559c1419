"""Streams that are silent for long are kept open by comments, whatever they tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_platform.gateway.drain import Drain
from readahead_platform.ports import bind_gateway
from readahead_platform.service import serving
from readahead_serving.api.app import create_app
from readahead_serving.api.models import LanguageModel, Models
from readahead_serving.engine.request import GenerationDelta, GenerationRequest
from readahead_serving.model.tokenizer import Tokenizer
from readahead_serving.settings import ServingSettings
from tests.platform.gateway import Gateway, add_document, running_gateway
from tests.platform.running import free_port
from tests.retrieval.library_parts import TermEmbedder
from tests.serving.scripted import MODEL, ScriptedEngine, delta

QUESTION = "How heavy is the Halden pump?"
SAID: list[dict[str, str]] = [{"role": "user", "content": QUESTION}]
STREAMS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"model": "kb/manuals", "messages": SAID}),
    ("/v1/responses", {"model": "kb/manuals", "input": QUESTION}),
    ("/v1/agent/runs", {"kb": "manuals", "question": QUESTION}),
    ("/v1/chat/completions", {"model": MODEL, "messages": SAID}),
    ("/v1/completions", {"model": MODEL, "prompt": QUESTION}),
    ("/v1/responses", {"model": MODEL, "input": QUESTION}),
]


async def kept_open(gate: asyncio.Event, http: httpx.AsyncClient, method: str, path: str, body: Any = None) -> str:
    """The rest of a stream that was silent behind the gate until it had told so."""
    async with http.stream(method, path, json=body) as response:
        assert response.status_code == 200, (path, await response.aread())
        lines = response.aiter_lines()
        async with asyncio.timeout(60):
            async for line in lines:
                if line == ": ping":
                    break
            else:
                pytest.fail(f"{path} ended in silence")
        gate.set()
        return "\n".join([line async for line in lines])


async def test_every_kind_of_stream_is_kept_open_while_it_is_silent(
    tmp_path: Path, manual: Path, smollm2_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def script(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        await gate.wait()
        yield delta(request, "Forty-one kilograms.", 3, "stop")

    model = LanguageModel(MODEL, ScriptedEngine(script), smollm2_tokenizer, 8192)
    app, port = create_app(ServingSettings(), Models(language=model, expected=(MODEL,))), free_port()
    llm = ScriptedLanguageModel(["The Halden pump weighs 41 kilograms without its frame."])
    async with (
        serving(app, bind_gateway("127.0.0.1", port), Drain(0.2)),
        running_gateway(tmp_path / "home", llm=llm, llm_url=f"http://127.0.0.1:{port}", heartbeat_s=0.05) as gateway,
    ):
        http = gateway.http()
        await a_job_is_followed(gate, gateway, manual, monkeypatch)
        await add_document(gateway, "manuals", manual)
        llm.hold = lambda _: gate.wait()
        for path, body in STREAMS:
            gate.clear()
            told = await kept_open(gate, http, "POST", path, {**body, "stream": True})
            assert "41 kilograms" in told or "Forty-one" in told, path
        for path, body, events in (
            ("/v1/responses", {**STREAMS[1][1], "background": True}, "?stream=true"),
            ("/v1/agent/runs", STREAMS[2][1], "/events"),
        ):
            gate.clear()
            begun = (await http.post(path, json=body)).json()
            assert "41 kilograms" in await kept_open(gate, http, "GET", f"{path}/{begun['id']}{events}"), path


async def a_job_is_followed(
    gate: asyncio.Event, gateway: Gateway, manual: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = TermEmbedder.embed

    async def held(self: TermEmbedder, texts: Sequence[str], kind: Any) -> np.ndarray:
        await gate.wait()
        return await embed(self, texts, kind)

    sdk = gateway.sdk()
    store = await sdk.vector_stores.create(name="held")
    file = await sdk.files.create(file=manual, purpose="assistants")
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(TermEmbedder, "embed", held)
        added = await sdk.vector_stores.files.create(store.id, file_id=file.id)
        job = (added.model_extra or {})["job_id"]
        assert "searchable" in await kept_open(gate, gateway.http(), "GET", f"/v1/jobs/{job}/events")
