"""An engine that plays a script and a client that sees each ASGI message: for what a real server does too rarely."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastapi import FastAPI

from readahead_serving.api.app import create_app
from readahead_serving.api.models import LanguageModel, Models, PromptTokenizer
from readahead_serving.engine.request import EngineStats, FinishReason, GenerationDelta, GenerationRequest, Usage
from readahead_serving.settings import ServingSettings

MODEL = "scripted"
WINDOW = 512

Script = Callable[[GenerationRequest], AsyncGenerator[GenerationDelta]]


class ScriptedEngine:
    """Implements the Engine protocol by a script for each request."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.requests: list[GenerationRequest] = []
        self.running = 0
        self.ready = True
        self.ended = asyncio.Event()
        """Set whenever a request ends, for whatever reason."""
        self.started = asyncio.Event()

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
        self.requests.append(request)
        self.running += 1
        self.started.set()
        script = self._script(request)
        try:
            async for delta in script:
                yield delta
        finally:
            await script.aclose()
            self.running -= 1
            self.ended.set()

    def stats(self) -> EngineStats:
        return EngineStats(
            steps=1,
            running=self.running,
            waiting=0,
            kv_tokens_used=0,
            kv_tokens_total=WINDOW,
            prompt_tokens_computed=0,
            completion_tokens=0,
            aborted=0,
        )

    def is_ready(self) -> bool:
        return self.ready

    async def close(self) -> None:
        pass


def delta(
    request: GenerationRequest, text: str, count: int, reason: FinishReason | None = None, error: str | None = None
) -> GenerationDelta:
    """The `count`th token of a request."""
    usage = Usage(prompt_tokens=len(request.prompt_tokens), completion_tokens=count, cached_tokens=0)
    return GenerationDelta(
        request_id=request.request_id, text=text, token_ids=[count], usage=usage, finish_reason=reason, error=error
    )


async def two_words(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
    yield delta(request, "Hello", 1)
    yield delta(request, " world", 2, "stop")


async def silence(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
    """A prefill that never ends."""
    await asyncio.Event().wait()
    yield delta(request, "", 0)


async def one_word_then_silence(request: GenerationRequest) -> AsyncGenerator[GenerationDelta]:
    yield delta(request, "Hello", 1)
    await asyncio.Event().wait()


def scripted_app(engine: ScriptedEngine, tokenizer: PromptTokenizer, **settings: Any) -> FastAPI:
    """The server's application over a scripted engine."""
    models = Models(language=LanguageModel(MODEL, engine, tokenizer, WINDOW), expected=(MODEL,))
    return create_app(ServingSettings(**settings), models)


class AsgiCall:
    """One request to an application, message by message. The client leaves when told to."""

    def __init__(self, app: FastAPI, path: str, body: dict[str, Any]) -> None:
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._sent: asyncio.Queue[Any] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
        headers = [(b"content-type", b"application/json"), (b"host", b"testserver")]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
        }
        self.task = asyncio.create_task(app(scope, self._incoming.get, self._sent.put))

    async def message(self) -> dict[str, Any]:
        """The next message that the application sends."""
        message: dict[str, Any] = await asyncio.wait_for(self._sent.get(), 10)
        return message

    async def body_until(self, text: bytes) -> bytes:
        """Reads body messages until one holds `text`; gives all of them joined."""
        seen = b""
        while text not in seen:
            seen += bytes((await self.message())["body"])
        return seen

    async def rest(self) -> bytes:
        """The body up to the end of the response."""
        seen = b""
        while True:
            message = await self.message()
            seen += bytes(message["body"])
            if not message.get("more_body"):
                return seen

    def leave(self) -> None:
        """The client hangs up."""
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def finished(self) -> None:
        await asyncio.wait_for(self.task, 10)


def chat_body(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **fields}
