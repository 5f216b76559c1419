"""The language model over the OpenAI API, against a server whose behaviour each test chooses."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from readahead_agents.errors import LanguageModelError, LanguageModelRefused, LanguageModelUnavailable
from readahead_agents.llm.base import CompletionOptions, Message, TokenUsage
from readahead_agents.llm.completion import complete
from readahead_agents.llm.openai import OpenAILanguageModel
from readahead_agents.llm.token_estimate import estimate_tokens

MESSAGES = [Message("system", "Be short."), Message("user", "Hello?")]
OPTIONS = CompletionOptions(max_tokens=16, seed=3, json_schema={"type": "object"})
Answering = Callable[[Request], Any]


def chunk(text: str | None = None, finish: str | None = None, **more: Any) -> bytes:
    choices = (
        [] if text is None and finish is None else [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    )
    event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, **more}
    return f"data: {json.dumps(event)}\n\n".encode()


def streaming(*events: bytes) -> Answering:
    async def body() -> AsyncIterator[bytes]:
        for event in events:
            yield event

    return lambda request: StreamingResponse(body(), media_type="text/event-stream")


def failing(status: int, headers: dict[str, str] | None = None, **error: Any) -> Answering:
    body = {"error": {"message": "no", "type": "t", "param": None, "code": None} | error}
    return lambda request: JSONResponse(body, status, headers)


@asynccontextmanager
async def model_at(**routes: Answering) -> AsyncIterator[OpenAILanguageModel]:
    """A model whose server has the given endpoints: chat, tokenize, models."""
    paths = {"chat": "/v1/chat/completions", "tokenize": "/tokenize", "models": "/v1/models"}

    def route(name: str, answering: Answering) -> Route:
        async def endpoint(request: Request) -> Response:
            await request.body()
            answer = answering(request)
            response: Response = await answer if inspect.isawaitable(answer) else answer
            return response

        return Route(paths[name], endpoint, methods=["GET" if name == "models" else "POST"])

    app = Starlette(routes=[route(name, answering) for name, answering in routes.items()])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        llm = OpenAILanguageModel(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", "m", "key", max_retries=0)
        try:
            yield llm
        finally:
            await llm.aclose()
            server.should_exit = True
            await serving


async def test_a_stream_ends_with_its_reason_and_usage() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    asked: list[dict[str, Any]] = []

    def answering(request: Request) -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            asked.append(await request.json())
            for event in (chunk("Hel"), chunk("lo"), chunk("", "stop"), chunk(usage=usage), b"data: [DONE]\n\n"):
                yield event

        return StreamingResponse(body(), media_type="text/event-stream")

    async with model_at(chat=answering) as llm, aclosing(llm.stream(MESSAGES, OPTIONS)) as chunks:
        got = [piece async for piece in chunks]
    assert "".join(piece.text for piece in got) == "Hello"
    assert [piece.finish_reason for piece in got] == [None, None, "stop"]
    assert got[-1].usage == TokenUsage(5, 2, 4, calls=1)
    assert asked[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert (asked[0]["seed"], asked[0]["temperature"], asked[0]["max_completion_tokens"]) == (3, 0.0, 16)


@pytest.mark.parametrize("window", [4096, None])
async def test_usage_so_far_is_asked_for_where_the_server_can_tell_it(window: int | None) -> None:
    asked: list[dict[str, Any]] = []
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}

    async def chat(request: Request) -> StreamingResponse:
        asked.append((await request.json())["stream_options"])
        answer: StreamingResponse = streaming(chunk("Hel", usage=usage), chunk("lo"), chunk("", "stop"))(request)
        return answer

    listed = {"object": "list", "data": [{"id": "m", "object": "model", "max_model_len": window}]}
    async with model_at(chat=chat, models=lambda _: JSONResponse(listed)) as llm:
        await llm.context_window()
        async with aclosing(llm.stream(MESSAGES, OPTIONS)) as chunks:
            first = await anext(chunks)
    assert first.usage == TokenUsage(5, 1, 0, calls=1)  # a stream that is left here has told what it cost
    assert asked[0].get("continuous_usage_stats", False) is (window is not None)


async def test_a_refused_request_carries_the_servers_code_and_parameter() -> None:
    chat = failing(400, code="context_length_exceeded", param="messages")
    async with model_at(chat=chat) as llm:
        with pytest.raises(LanguageModelRefused) as caught:
            await complete(llm, MESSAGES, OPTIONS)
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    ("headers", "after"), [({"retry-after-ms": "250"}, 0.25), ({"retry-after": "3"}, 3.0), ({}, None)]
)
async def test_a_busy_server_is_unavailable_and_says_when_to_come_back(
    headers: dict[str, str], after: float | None
) -> None:
    async with model_at(chat=failing(429, headers)) as llm:
        with pytest.raises(LanguageModelUnavailable) as caught:
            await complete(llm, MESSAGES, OPTIONS)
    assert caught.value.retry_after_s == after


async def test_a_failing_server_is_unavailable() -> None:
    async with model_at(chat=failing(503)) as llm:
        with pytest.raises(LanguageModelUnavailable):
            await complete(llm, MESSAGES, OPTIONS)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    llm = OpenAILanguageModel(f"http://127.0.0.1:{port}/v1", "m", "key", max_retries=0)
    with pytest.raises(LanguageModelUnavailable):
        await complete(llm, MESSAGES, OPTIONS)
    await llm.aclose()


@pytest.mark.parametrize("end", [b"", b'data: {"error": {"message": "engine died"}}\n\n'])
async def test_a_stream_that_breaks_off_is_no_finished_answer(end: bytes) -> None:
    async with model_at(chat=streaming(chunk("Hel"), end)) as llm:
        with pytest.raises(LanguageModelUnavailable):
            await complete(llm, MESSAGES, OPTIONS)


async def test_the_time_allowed_bounds_the_whole_completion() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield chunk("x")
            await asyncio.sleep(0.01)

    def chat(request: Request) -> StreamingResponse:
        return StreamingResponse(endless(), media_type="text/event-stream")

    async with model_at(chat=chat) as llm:
        with pytest.raises(LanguageModelUnavailable):
            await complete(llm, MESSAGES, CompletionOptions(max_tokens=16, timeout_s=0.2))


async def test_closing_the_stream_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def until_gone() -> AsyncGenerator[bytes, None]:
        try:
            yield chunk("x")
            await asyncio.Event().wait()
        finally:
            gone.set()

    def chat(request: Request) -> StreamingResponse:
        return StreamingResponse(until_gone(), media_type="text/event-stream")

    async with model_at(chat=chat) as llm:
        async with aclosing(llm.stream(MESSAGES, OPTIONS)) as chunks:
            assert (await anext(chunks)).text == "x"
        async with asyncio.timeout(10):
            await gone.wait()


async def test_tokens_are_counted_by_the_server_and_each_text_once() -> None:
    asked = []

    def tokenize(request: Request) -> JSONResponse:
        asked.append(request)
        return JSONResponse({"count": 42, "max_model_len": 100})

    async with model_at(tokenize=tokenize) as llm:
        assert [await llm.count_tokens(["some text"]) for _ in range(3)] == [[42], [42], [42]]
    assert len(asked) == 1


async def test_many_texts_are_counted_in_one_request_in_their_order() -> None:
    asked: list[list[str]] = []
    app_texts = [f"{'word ' * number}end" for number in range(300)]

    async with model_at(tokenize=_counting(asked)) as llm:
        counts = await llm.count_tokens([*app_texts, app_texts[0]])
        assert counts == [len(text.split()) for text in [*app_texts, app_texts[0]]]
        assert await llm.count_tokens(app_texts[:5]) == counts[:5]
    assert len(asked) == 1


async def test_a_server_that_counts_one_text_at_a_time_is_asked_a_bounded_number_of_times() -> None:
    asked: list[list[str]] = []
    texts = [f"{'word ' * number}end" for number in range(100)]
    async with model_at(tokenize=_counting(asked, many=False)) as llm:
        counts = await llm.count_tokens(texts)
        assert counts[-16:] == [len(text.split()) for text in texts[-16:]]
        assert counts[:-16] == [estimate_tokens(text) for text in texts[:-16]]
    assert len(asked) == 17


def _counting(asked: list[list[str]], *, many: bool = True) -> Answering:
    """Counts words; a list of texts only where `many`."""

    async def answered(request: Request) -> Response:
        text = (await request.json())["text"]
        asked.append(text)
        if isinstance(text, str):
            return JSONResponse({"count": len(text.split())})
        if not many:
            return JSONResponse({"error": {"message": "text: no string"}}, 400)
        return JSONResponse({"counts": [len(each.split()) for each in text]})

    return answered


async def test_a_refusal_is_told_in_the_servers_words_alone() -> None:
    async with model_at(chat=failing(400, message="The prompt is too long.")) as llm:
        with pytest.raises(LanguageModelRefused) as caught:
            await complete(llm, MESSAGES, OPTIONS)
    assert caught.value.message == "The prompt is too long."


async def test_no_message_tells_where_the_server_is() -> None:
    for chat in (failing(503), streaming(chunk("Hel")), failing(400, message="no")):
        async with model_at(chat=chat) as llm:
            with pytest.raises(LanguageModelError) as caught:
                await complete(llm, MESSAGES, OPTIONS)
        assert "127.0.0.1" not in caught.value.message


async def test_a_server_without_a_counter_is_over_estimated_and_asked_once() -> None:
    async with model_at(chat=streaming()) as llm:
        assert await llm.count_tokens(["some text"]) == [estimate_tokens("some text")]


async def test_the_window_is_the_servers_or_else_the_setting() -> None:
    entry = {"id": "m", "object": "model", "created": 1, "owned_by": "us"}
    for told, window in (({"max_model_len": 777}, 777), ({}, 4096)):
        listing = JSONResponse({"object": "list", "data": [entry | told]})
        async with model_at(models=partial(_always, listing)) as llm:
            assert await llm.context_window() == window


def _always(response: Response, request: Request) -> Response:
    return response
