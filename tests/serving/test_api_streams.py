"""What streams do when things take long, go wrong, or nobody listens any more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from readahead_serving.api.models import PromptTokenizer
from readahead_serving.engine.request import GenerationDelta, GenerationRequest
from readahead_serving.errors import EngineUnavailable
from tests.serving.scripted import (
    AsgiCall,
    ScriptedEngine,
    chat_body,
    delta,
    one_word_then_silence,
    scripted_app,
    silence,
    two_words,
)

CHAT = "/v1/chat/completions"


def events(body: bytes) -> list[Any]:
    """The data of a stream's events; [DONE] stays text."""
    frames = [frame for frame in body.decode().split("\n\n") if frame.startswith("data: ")]
    texts = [frame.removeprefix("data: ") for frame in frames]
    return [text if text == "[DONE]" else json.loads(text) for text in texts]


async def test_a_silent_stream_sends_headers_and_heartbeats(smollm2_tokenizer: PromptTokenizer) -> None:
    engine = ScriptedEngine(silence)
    call = AsgiCall(scripted_app(engine, smollm2_tokenizer, heartbeat_s=0.01), CHAT, chat_body(stream=True))
    start = await call.message()
    assert start["status"] == 200
    assert dict(start["headers"])[b"content-type"].startswith(b"text/event-stream")
    assert (await call.body_until(b": ping\n\n: ping\n\n")).startswith(b": ping\n\n")
    call.leave()
    await call.finished()


@pytest.mark.parametrize("script", [silence, one_word_then_silence], ids=["before the first token", "while decoding"])
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "whole"])
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_a_client_that_leaves_ends_its_requests(
    script: Any, stream: bool, path: str, smollm2_tokenizer: PromptTokenizer
) -> None:
    engine = ScriptedEngine(script)
    body = chat_body(stream=stream, n=2, prompt="Hi")
    call = AsgiCall(scripted_app(engine, smollm2_tokenizer), path, body)
    await asyncio.wait_for(engine.started.wait(), 10)
    if stream:
        await call.message()  # the headers
    assert engine.running == 2
    call.leave()
    await call.finished()
    assert engine.running == 0


async def test_a_failure_under_way_becomes_an_error_event_without_done(smollm2_tokenizer: PromptTokenizer) -> None:
    async def dies(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        yield delta(request, "Hello", 1)
        raise EngineUnavailable("The engine died.")

    call = AsgiCall(scripted_app(ScriptedEngine(dies), smollm2_tokenizer), CHAT, chat_body(stream=True))
    assert (await call.message())["status"] == 200
    *chunks, last = events(await call.rest())
    assert chunks[1]["choices"][0]["delta"]["content"] == "Hello"
    expected = {"message": "The engine died.", "type": "server_error", "param": None, "code": "engine_unavailable"}
    assert last == {"error": expected}


async def test_a_request_that_the_engine_gives_up_is_an_error_event(smollm2_tokenizer: PromptTokenizer) -> None:
    async def gives_up(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        yield delta(request, "Hello", 1)
        yield delta(request, "", 1, "abort", "deadline exceeded")

    call = AsgiCall(scripted_app(ScriptedEngine(gives_up), smollm2_tokenizer), CHAT, chat_body(stream=True, timeout=5))
    await call.message()
    assert events(await call.rest())[-1]["error"]["code"] == "deadline_exceeded"


async def test_a_bug_under_way_is_told_without_its_details(smollm2_tokenizer: PromptTokenizer) -> None:
    async def breaks(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        yield delta(request, "Hello", 1)
        raise ZeroDivisionError("secret")

    call = AsgiCall(scripted_app(ScriptedEngine(breaks), smollm2_tokenizer), CHAT, chat_body(stream=True))
    await call.message()
    body = await call.rest()
    assert events(body)[-1]["error"]["type"] == "server_error"
    assert b"secret" not in body


async def test_the_first_delta_of_each_choice_has_the_role_and_the_last_its_reason(
    smollm2_tokenizer: PromptTokenizer,
) -> None:
    call = AsgiCall(scripted_app(ScriptedEngine(two_words), smollm2_tokenizer), CHAT, chat_body(stream=True, n=2))
    await call.message()
    *chunks, done = events(await call.rest())
    assert done == "[DONE]"
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all("usage" not in chunk for chunk in chunks)
    for index in range(2):
        own = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert own[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(choice["delta"].get("content", "") for choice in own) == "Hello world"
        assert [choice["finish_reason"] for choice in own] == [None, None, None, "stop"]


async def test_every_chunk_tells_the_usage_so_far_where_it_is_asked_for(smollm2_tokenizer: PromptTokenizer) -> None:
    body = chat_body(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    call = AsgiCall(scripted_app(ScriptedEngine(two_words), smollm2_tokenizer), CHAT, body)
    await call.message()
    *chunks, last, _ = events(await call.rest())
    written = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert written == sorted(written) and written[-1] == last["usage"]["completion_tokens"] == 2
    assert all(chunk["usage"]["prompt_tokens"] == last["usage"]["prompt_tokens"] > 0 for chunk in chunks)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_usage_comes_in_one_extra_chunk_when_asked_for(path: str, smollm2_tokenizer: PromptTokenizer) -> None:
    body = chat_body(stream=True, n=2, prompt=[1, 2, 3], stream_options={"include_usage": True})
    call = AsgiCall(scripted_app(ScriptedEngine(two_words), smollm2_tokenizer), path, body)
    await call.message()
    *chunks, last, done = events(await call.rest())
    assert done == "[DONE]"
    assert all(chunk["usage"] is None and chunk["choices"] for chunk in chunks)
    assert last["choices"] == []
    usage = last["usage"]
    assert usage["completion_tokens"] == 4  # two choices of two tokens
    assert usage["total_tokens"] == usage["prompt_tokens"] + 4
    assert usage["prompt_tokens_details"] == {"cached_tokens": 0}
    if path == "/v1/completions":
        assert usage["prompt_tokens"] == 3  # the prompt counts once
