"""Measures whether ingestion holds up a gateway: `python scripts/measure_gateway_lag.py [--pages 2000] [--chats 4]`.

The gateway runs in this process over a real library; chats come from one other process and the two models, which
answer at once, are a third: what is slow is the gateway. Chats run for a while alone, then on while a generated PDF is
read, cut, embedded and indexed. Told for both: the event loop's lag (20 looks a second); the processor time of its
steps of a millisecond and more, which a busy machine does not lengthen; the chats' latency; and, of all processes of
ingestion below this one, the largest memory at any moment.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import random
import socket
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import numpy as np
import uvicorn
from reportlab.pdfgen.canvas import Canvas
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from readahead_platform.gateway.app import create_app
from readahead_platform.gateway.context import GatewayContext, open_context
from readahead_platform.gateway.tenants import DEFAULT_TENANT
from readahead_platform.observe.event_loop import watched_lag
from readahead_platform.ports import bind_gateway
from readahead_platform.service import prepare_interpreter, serving, spare_collector
from readahead_platform.settings import Settings, read_settings
from readahead_retrieval.types import Document
from readahead_serving.settings import served_name

DIMENSION = 384
WORDS = ["valve", "pump", "frame", "pressure", "gasket", "bearing", "winter", "office", "harbour", "ledger", "tenant"]
WORDS += ["invoice", "meadow", "turbine", "journal", "archive", "committee", "weather", "signal", "copper", "granite"]
WORDS += ["railway", "minister", "harvest", "orchard", "syllable", "meridian", "cathedral"]
QUESTIONS = ("How heavy is the pump?", "When is the oil changed?", "What does the warranty cover?")
ANSWER = "The pump weighs 41 kilograms without its frame. "
FACTS = ("The pump weighs 41 kilograms without its frame.", "The oil is changed after 600 hours of work.")


@dataclass(frozen=True)
class Models:
    """The stand-in for the LLM server."""

    base_url: str
    api_key: str = "none"
    restarts: int = 0


def main() -> None:
    arguments = _arguments()
    context = multiprocessing.get_context("spawn")
    port, gateway_port = _free_port(), _free_port()
    models = context.Process(target=serve_models, args=(port,), daemon=True)
    models.start()
    _wait_for(port)
    ours, theirs = context.Pipe()
    clients = context.Process(target=chat_for_ever, args=(theirs, gateway_port, arguments.chats), daemon=True)
    clients.start()
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(measure(Path(folder), port, gateway_port, ours, arguments))
    models.terminate()
    clients.terminate()
    print(json.dumps(report, indent=2) if arguments.json else as_text(report))


async def measure(
    folder: Path, port: int, gateway_port: int, clients: Connection, arguments: argparse.Namespace
) -> dict[str, Any]:
    settings = read_settings({"home": str(folder / "home"), "web": False}, environ={}, cwd=folder).settings
    settings.home.mkdir()
    small, large = folder / "facts.pdf", folder / "large.pdf"
    await asyncio.to_thread(write_pdf, small, [FACTS])
    await asyncio.to_thread(write_pdf, large, pages(arguments.pages))
    lags: list[tuple[float, float]] = []
    steps: list[tuple[float, float]] = []
    time_steps(steps)
    prepare_interpreter()
    async with running(settings, Models(f"http://127.0.0.1:{port}"), gateway_port) as gateway:
        await ingest(gateway, small)
        key, _ = await gateway.tenants.create_key(DEFAULT_TENANT, "load")
        clients.send(key)
        await asyncio.sleep(2)  # the first questions warm up what is loaded late
        async with watched_lag(lambda lag: lags.append((time.monotonic(), lag))), watched_memory() as memory:
            begun = time.monotonic()
            await asyncio.sleep(arguments.alone)
            middle = time.monotonic()
            document, stages = await ingest(gateway, large)
            end = time.monotonic()
        clients.send(None)
        latencies = await asyncio.to_thread(clients.recv)
    assert document.error_code is None, document.error_message
    return {
        "pages": document.pages,
        "chunks": document.chunks,
        "chats": arguments.chats,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "ingestion_s": round(end - middle, 1),
        "stages_s": stages,
        "largest_memory_mb": {name: round(value / 1e6) for name, value in memory.items()},
        "before": figures(lags, steps, latencies, begun, middle),
        "during": figures(lags, steps, latencies, middle, end),
    }


def time_steps(steps: list[tuple[float, float]]) -> None:
    """Notes from now on when a step of an event loop ended that took a millisecond of its thread, and how much."""
    step = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        step(handle)
        if (took := time.thread_time() - began) >= 0.001:
            steps.append((time.monotonic(), took))

    mock.patch.object(asyncio.Handle, "_run", timed).start()


Times = Sequence[tuple[float, float]]


def figures(lags: Times, steps: Times, latencies: Times, begun: float, end: float) -> dict[str, dict[str, float]]:
    return {
        "step_cpu_ms": quantiles([took for at, took in steps if begun <= at < end]),
        "loop_lag_ms": quantiles([lag for at, lag in lags if begun <= at < end]),
        "chat_ms": quantiles([took for at, took in latencies if begun <= at < end]),
    }


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {"count": 0}
    shares = {"p50": 50, "p95": 95, "p99": 99, "max": 100}
    told = {name: round(1000 * float(np.percentile(seconds, share)), 1) for name, share in shares.items()}
    return {"count": len(seconds), **told}


def as_text(report: dict[str, Any]) -> str:
    lines = [f"{name}: {value}" for name, value in report.items() if name not in {"before", "during"}]
    for phase in ("before", "during"):
        for figure, values in report[phase].items():
            lines.append(f"{phase:6} {figure:12} " + "  ".join(f"{k} {v:g}" for k, v in values.items()))
    return "\n".join(lines)


@asynccontextmanager
async def running(settings: Settings, models: Models, port: int) -> AsyncIterator[GatewayContext]:
    tokenizer = read_settings().settings.serving.models_dir / settings.serving.embedding_model
    async with open_context(settings, models, tokenizer) as context:
        await context.library.create_kb(DEFAULT_TENANT, "facts")
        app = create_app(context)
        spare_collector()
        async with serving(app, bind_gateway("127.0.0.1", port), context.drain):
            yield context


async def ingest(gateway: GatewayContext, path: Path) -> tuple[Document, dict[str, float]]:
    """Returns the document once it is searchable, and the seconds that each stage took."""

    async def blocks() -> AsyncIterator[bytes]:
        with path.open("rb") as file:
            while block := await asyncio.to_thread(file.read, 1 << 18):
                yield block

    file = await gateway.library.files.save(DEFAULT_TENANT, path.name, blocks())
    document = await gateway.library.add_document(DEFAULT_TENANT, "facts", file.id)
    stages: dict[str, float] = {}
    state, since = document.state.value, time.monotonic()
    last = document
    async for last in gateway.library.watch(DEFAULT_TENANT, document.id):
        now = time.monotonic()
        stages[state] = round(stages.get(state, 0.0) + now - since, 1)
        state, since = last.state.value, now
    return last, stages


@asynccontextmanager
async def watched_memory() -> AsyncIterator[dict[str, int]]:
    """The largest sum of resident bytes: of this process, and of the processes of ingestion below it."""
    largest = {"gateway": 0, "ingestion": 0}

    def look() -> None:
        largest["gateway"] = max(largest["gateway"], _resident(os.getpid()))
        below = [pid for pid in _children(os.getpid()) if b"readahead_retrieval" in _command(pid)]
        largest["ingestion"] = max(largest["ingestion"], sum(map(_resident, below)))

    async def watch() -> None:
        while True:
            await asyncio.to_thread(look)
            await asyncio.sleep(0.25)

    watching = asyncio.create_task(watch())
    try:
        yield largest
    finally:
        watching.cancel()


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return found


def pages(count: int) -> Iterator[Sequence[str]]:
    """Some 500 words each, in sentences, no two pages alike."""
    chooser = random.Random(7)
    for _ in range(count):
        yield [f"{' '.join(chooser.choices(WORDS, k=12)).capitalize()}." for _ in range(42)]


def write_pdf(path: Path, pages: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> None:
    canvas = Canvas(str(path), pagesize=(595, 842))
    for lines in pages:
        canvas.setFont("Helvetica", 8)
        for number, line in enumerate(lines):
            canvas.drawString(40, 800 - 18 * number, line)
        canvas.showPage()
    canvas.save()


# The two models, in a process of their own


def serve_models(port: int) -> None:
    settings = Settings().serving
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
        data = [{"index": i, "embedding": embedding(text)} for i, text in enumerate(texts)]
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


# The chats, in a process of their own


def chat_for_ever(pipe: Connection, port: int, chats: int) -> None:
    key = pipe.recv()
    latencies: list[tuple[float, float]] = []
    asyncio.run(_chats(pipe, port, chats, key, latencies))
    pipe.send(latencies)


async def _chats(pipe: Connection, port: int, chats: int, key: str, latencies: list[tuple[float, float]]) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1", headers=headers, timeout=60) as client:
        tasks = [asyncio.create_task(_chat(client, number, latencies)) for number in range(chats)]
        ended = asyncio.create_task(asyncio.to_thread(pipe.recv))
        await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()


async def _chat(client: httpx.AsyncClient, number: int, latencies: list[tuple[float, float]]) -> None:
    while True:
        question = QUESTIONS[number % len(QUESTIONS)]
        number += 1
        body = {"model": "kb/facts", "stream": True, "messages": [{"role": "user", "content": question}]}
        begun = time.monotonic()
        async with client.stream("POST", "/chat/completions", json=body) as response:
            assert response.status_code == 200, await response.aread()
            async for _ in response.aiter_lines():
                pass
        latencies.append((begun, time.monotonic() - begun))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=2000, help="of the generated PDF, some 500 words each")
    parser.add_argument("--chats", type=int, default=4, help="at a time")
    parser.add_argument("--alone", type=float, default=10.0, help="seconds of chats before the file comes")
    parser.add_argument("--json", action="store_true", help="print one object")
    return parser.parse_args()


def _free_port() -> int:
    with bind_gateway("127.0.0.1", 0) as probe:
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    main()
