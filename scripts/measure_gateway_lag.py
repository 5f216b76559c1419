"""Measures whether ingestion holds up a gateway: `python scripts/measure_gateway_lag.py [--pages 2000] [--chats 4]`.

The gateway runs in this process over a real library; chats come from one other process and the two models, which
answer at once, are a third, with the embeddings in one beside it: what is slow is the gateway. Chats run for a while
alone, then on while a generated PDF is read, cut, embedded and indexed. Told for both, and for each stage: the event
loop's lag (20 looks a second); the processor time of its steps of a millisecond and more, which a busy machine does not
lengthen; the chats' latency; and, of all processes of ingestion below this one, the largest memory at any moment.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

from lag_chats import chat_for_ever
from lag_models import serve_models
from lag_pdf import FACTS, pages, write_pdf
from lag_report import Span, as_text, figures, time_steps, watched_memory

from readahead_platform.gateway.app import create_app
from readahead_platform.gateway.context import GatewayContext, open_context
from readahead_platform.gateway.tenants import DEFAULT_TENANT
from readahead_platform.observe.event_loop import watched_lag
from readahead_platform.ports import bind_gateway
from readahead_platform.service import prepare_interpreter, serving, spare_collector
from readahead_platform.settings import Settings, read_settings
from readahead_retrieval.types import Document


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
    models = context.Process(target=serve_models, args=(port,))  # no daemon: it starts a process itself
    models.start()
    try:
        report = _report(context, port, gateway_port, arguments)
    finally:
        models.terminate()
    print(json.dumps(report, indent=2) if arguments.json else as_text(report))


def _report(context: SpawnContext, port: int, gateway_port: int, arguments: argparse.Namespace) -> dict[str, Any]:
    _wait_for(port)
    ours, theirs = context.Pipe()
    clients = context.Process(target=chat_for_ever, args=(theirs, gateway_port, arguments.chats), daemon=True)
    clients.start()
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(measure(Path(folder), port, gateway_port, ours, arguments))
    clients.terminate()
    return report


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
    phases = {"before": (begun, middle), "during": (middle, end), **stages}
    return {
        "pages": document.pages,
        "chunks": document.chunks,
        "chats": arguments.chats,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "ingestion_s": round(end - middle, 1),
        "stages_s": {name: round(to - since, 1) for name, (since, to) in stages.items()},
        "largest_memory_mb": {name: round(value / 1e6) for name, value in memory.items()},
        "phases": {name: figures(lags, steps, latencies, *phase) for name, phase in phases.items()},
    }


@asynccontextmanager
async def running(settings: Settings, models: Models, port: int) -> AsyncIterator[GatewayContext]:
    tokenizer = read_settings().settings.serving.models_dir / settings.serving.embedding_model
    async with open_context(settings, models, tokenizer) as context:
        await context.library.create_kb(DEFAULT_TENANT, "facts")
        app = create_app(context)
        spare_collector()
        async with serving(app, bind_gateway("127.0.0.1", port), context.drain):
            yield context


async def ingest(gateway: GatewayContext, path: Path) -> tuple[Document, dict[str, Span]]:
    """Returns the document once it is searchable, and from when to when each stage lasted."""

    async def blocks() -> AsyncIterator[bytes]:
        with path.open("rb") as file:
            while block := await asyncio.to_thread(file.read, 1 << 18):
                yield block

    file = await gateway.library.files.save(DEFAULT_TENANT, path.name, blocks())
    last = document = await gateway.library.add_document(DEFAULT_TENANT, "facts", file.id)
    stages: dict[str, Span] = {}
    state, since = document.state.value, time.monotonic()
    async for last in gateway.library.watch(DEFAULT_TENANT, document.id):
        if last.state.value != state:
            stages[state] = (since, time.monotonic())
            state, since = last.state.value, time.monotonic()
    return last, stages


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
