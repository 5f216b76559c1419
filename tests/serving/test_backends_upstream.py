"""The engine over HTTP, against our own server as the upstream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from readahead_serving.backends.upstream import UpstreamEngine
from readahead_serving.bench.own_server import free_port
from readahead_serving.engine.request import GenerationDelta, GenerationRequest, SamplingParams
from readahead_serving.errors import EngineBusy, EngineUnavailable, RequestRefused
from readahead_serving.model.tokenizer import Tokenizer
from tests.serving.llm_server import LlmServer

MODEL = "smollm2-135m-instruct"


@pytest.fixture
async def engine(llm_server: LlmServer) -> AsyncIterator[UpstreamEngine]:
    engine = await UpstreamEngine.start(llm_server.base_url, MODEL)
    yield engine
    await engine.close()


async def collect(engine: UpstreamEngine, request: GenerationRequest) -> list[GenerationDelta]:
    return [delta async for delta in engine.generate(request)]


async def test_its_deltas_are_the_upstreams_completion(
    engine: UpstreamEngine, llm_server: LlmServer, smollm2_tokenizer: Tokenizer
) -> None:
    prompt = "The capital of France is"
    async with httpx.AsyncClient(base_url=llm_server.address, timeout=60) as http:
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 8, "temperature": 0}
        direct = (await http.post("/v1/completions", json=body)).json()
    tokens = smollm2_tokenizer.encode_prompt(prompt)
    sampling = SamplingParams(max_tokens=8, temperature=0)
    deltas = await collect(engine, GenerationRequest(request_id="1", prompt_tokens=tokens, sampling=sampling))
    assert "".join(delta.text for delta in deltas) == direct["choices"][0]["text"]
    assert [delta.finish_reason for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    last = deltas[-1]
    assert last.finish_reason == "length"
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (len(tokens), 8)
    assert engine.stats().completion_tokens == 8


async def test_stops_seeds_and_schemas_reach_the_upstream(engine: UpstreamEngine, smollm2_tokenizer: Tokenizer) -> None:
    def ask(prompt: str, sampling: SamplingParams) -> GenerationRequest:
        tokens = smollm2_tokenizer.encode_prompt(prompt)
        return GenerationRequest(request_id="1", prompt_tokens=tokens, sampling=sampling)

    counting = ask("1, 2, 3, 4,", SamplingParams(max_tokens=16, temperature=0, stop=("7",)))
    stopped = await collect(engine, counting)
    assert "".join(delta.text for delta in stopped).strip() == "5, 6,"
    assert stopped[-1].finish_reason == "stop"
    sampled = ask("Once", SamplingParams(max_tokens=8, seed=3, top_k=50))
    first, second = [await collect(engine, sampled) for _ in range(2)]
    assert [delta.text for delta in first] == [delta.text for delta in second]
    constrained = ask("Is it?", SamplingParams(max_tokens=8, json_schema='{"type": "boolean"}'))
    assert "".join(delta.text for delta in await collect(engine, constrained)) in ("true", "false")
    regex = SamplingParams(max_tokens=8, regex="tr?ue")
    for held in (regex, SamplingParams(max_tokens=8, grammar='start: "true" | "tue"')):
        answer = await collect(engine, ask("Is it?", held))
        assert "".join(delta.text for delta in answer) in ("true", "tue")
    biased = ask("Is it?", SamplingParams(max_tokens=2, temperature=0, logit_bias=((504, 100.0),)))
    assert "".join(d.text for d in await collect(engine, biased)) == smollm2_tokenizer.decode([504, 504])
    with pytest.raises(RequestRefused, match="logprobs"):
        await collect(engine, ask("Is it?", SamplingParams(max_tokens=2, logprobs=1)))


async def test_closing_it_aborts_the_request_upstream(engine: UpstreamEngine, llm_server: LlmServer) -> None:
    sampling = SamplingParams(max_tokens=2000, temperature=0, ignore_eos=True)
    stream = engine.generate(GenerationRequest(request_id="1", prompt_tokens=[504, 3575], sampling=sampling))
    await anext(stream)
    assert engine.stats().running == 1
    await stream.aclose()
    assert engine.stats().running == 0
    async with httpx.AsyncClient(base_url=llm_server.address) as http:
        for _ in range(200):
            if "readahead_requests_running 0.0" in (await http.get("/metrics")).text:
                return
            await asyncio.sleep(0.1)
    raise AssertionError("the upstream still computes")


async def test_refusals_keep_their_words(engine: UpstreamEngine) -> None:
    sampling = SamplingParams(max_tokens=10**6)
    with pytest.raises(RequestRefused) as refused:
        await collect(engine, GenerationRequest(request_id="1", prompt_tokens=[5], sampling=sampling))
    assert refused.value.code == "context_length_exceeded"


async def test_a_deadline_reaches_the_upstream(engine: UpstreamEngine) -> None:
    sampling = SamplingParams(max_tokens=2000, ignore_eos=True)
    request = GenerationRequest(
        request_id="1", prompt_tokens=[504, 3575], sampling=sampling, deadline=time.time() + 0.5
    )
    # given up half way, or, where the upstream has measured its own pace, refused at once
    with pytest.raises((EngineUnavailable, EngineBusy)):
        await collect(engine, request)


async def test_an_upstream_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(EngineUnavailable, match="doesn't answer"):
        await UpstreamEngine.start(f"http://127.0.0.1:{free_port()}/v1", MODEL)


async def test_an_upstream_without_the_model_is_refused(llm_server: LlmServer) -> None:
    with pytest.raises(EngineUnavailable, match="gpt-9"):
        await UpstreamEngine.start(llm_server.base_url, "gpt-9")
