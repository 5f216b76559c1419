"""The two models of `measure_gateway_lag.py`: they answer at once; embeddings are computed in a process beside."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import zlib
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from readahead_platform.parent_death import die_with_parent
from readahead_serving.settings import ServingSettings, served_name

DIMENSION = 384
TEXTS_PER_TURN = 8
"""As in the service, where a question waits for one turn of a document's passages."""
ANSWER = "The pump weighs 41 kilograms without its frame. "


def serve_models(port: int) -> None:
    settings = ServingSettings()
    beside = ProcessPoolExecutor(1, initializer=die_with_parent, initargs=(os.getpid(),))
    names = [served_name(settings.model), served_name(settings.embedding_model)]

    async def models(_: Request) -> JSONResponse:
        return JSONResponse(
            {
                "object": "list",
                "data": [{"id": n, "max_model_len": 256} for n in names[1:]]
                + [{"id": names[0], "max_model_len": 8192}],
            }
        )

    async def embeddings(request: Request) -> JSONResponse:
        texts = (await request.json())["input"]
        rows: list[str] = []
        for start in range(0, len(texts), TEXTS_PER_TURN):
            part = texts[start : start + TEXTS_PER_TURN]
            rows += await asyncio.get_running_loop().run_in_executor(beside, embeddings_of, part)
        data = [{"index": i, "embedding": row} for i, row in enumerate(rows)]
        return JSONResponse({"object": "list", "data": data})

    async def chat(request: Request) -> StreamingResponse:
        return StreamingResponse(answer(), media_type="text/event-stream")

    async def tokenize(request: Request) -> JSONResponse:
        texts = (await request.json())["text"]
        return JSONResponse({"counts": [len(text) // 4 for text in texts]})

    async def nothing(_: Request) -> JSONResponse:
        return JSONResponse({"data": []})

    app = Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/embeddings", embeddings, methods=["POST"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/tokenize", tokenize, methods=["POST"]),
            Route("/v1/packs", nothing),
            Route("/health/ready", nothing),
        ]
    )
    uvicorn.run(app, port=port, log_level="critical")  # who leaves at the end is no news


def embeddings_of(texts: list[str]) -> list[str]:
    return [embedding(text) for text in texts]


def embedding(text: str) -> str:
    """One number for each text's words: near is what shares them."""
    vector = np.full(DIMENSION, 1e-3, dtype="<f4")
    for word in text.lower().split():
        vector[zlib.crc32(word.strip(".?").encode()) % DIMENSION] += 1
    return base64.b64encode(vector.tobytes()).decode()


async def answer() -> AsyncIterator[bytes]:
    for piece in (ANSWER * 3).split(" "):
        yield event({"choices": [{"index": 0, "delta": {"content": piece + " "}, "finish_reason": None}]})
        await asyncio.sleep(0.02)
    yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield event({"choices": [], "usage": {"prompt_tokens": 300, "completion_tokens": 24, "total_tokens": 324}})
    yield b"data: [DONE]\n\n"


def event(fields: dict[str, Any]) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", **fields}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"
