"""Runs the LLM server: models from the store, the engine and the embedding process beside, HTTP in front."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from readahead_serving.api.app import create_app
from readahead_serving.api.drain import Drain
from readahead_serving.api.models import LanguageModel, Models
from readahead_serving.backends.native import NativeEngine
from readahead_serving.backends.transformers_cb import TransformersEngine, needs_transformers
from readahead_serving.embeddings import EmbeddingModel
from readahead_serving.errors import CannotListen, ServingError
from readahead_serving.model.metadata import load_tokenizer
from readahead_serving.model.progress import DownloadProgress
from readahead_serving.model.store import ModelStore
from readahead_serving.packs.opening import open_shelf
from readahead_serving.settings import ServingSettings, served_name

_BACKLOG = 2048
_LAST_WORDS_S = 5
"""Seconds that error events may take to reach their clients when a drain has run out of time."""
_KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that none is closed in the moment in which it is used again."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where the models of a server lie on disk."""

    language: Path
    embedding: Path | None


def serve(settings: ServingSettings) -> None:
    """Runs the LLM server until SIGTERM or SIGINT, then drains it.

    Raises:
        ServingError: The server can't run: the port is taken, or a model can't be had or loaded.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    with contextlib.closing(_listen(settings.host, settings.port)) as listener:
        files = ensure_models(settings, _errors())
        asyncio.run(_serve(settings, files, listener))


def main(settings_json: str) -> None:
    """Runs the LLM server with settings given as JSON; what stops it is one line on standard error and exit code 1."""
    try:
        serve(ServingSettings.model_validate_json(settings_json))
    except ValidationError as error:
        first = error.errors()[0]
        _errors().print(f"error: setting {'.'.join(map(str, first['loc']))}: {first['msg']}")
        sys.exit(1)
    except ServingError as error:
        _errors().print(f"error: {error}")
        sys.exit(1)


def ensure_models(settings: ServingSettings, console: Console) -> ModelFiles:
    """Finds the server's models on disk; missing ones are fetched, with a progress bar where it would be seen.

    Raises:
        ModelLoadError: One can't be had.
    """
    store = ModelStore(settings.models_dir)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        bars = {name: progress.add_task(name, total=None, visible=False) for name in _wanted(settings)}

        def show(report: DownloadProgress) -> None:
            description = f"{report.model}: {report.stage}"
            bar = bars[report.model]
            progress.update(
                bar, visible=True, description=description, completed=report.done_bytes, total=report.total_bytes
            )

        paths = {name: store.ensure(name, show) for name in bars}
    return ModelFiles(paths[settings.model], paths.get(settings.embedding_model))


def _errors() -> Console:
    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def _wanted(settings: ServingSettings) -> list[str]:
    return [name for name in (settings.model, settings.embedding_model) if name]


def _listen(host: str, port: int) -> socket.socket:
    """Takes the port at once, so that a port in use is told before anything is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) only where the protocol is said; else each waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(
            f"Can't listen on {host}:{port}: {error.strerror}. Choose another address with --host or --port."
        ) from error
    return listener


async def _serve(settings: ServingSettings, files: ModelFiles, listener: socket.socket) -> None:
    models = Models(expected=tuple(served_name(name) for name in _wanted(settings)))
    drain = Drain(settings.drain_s)
    server = _Server(_http_config(settings, models, drain), drain)
    ending = asyncio.create_task(_drain(drain, models, server))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    loading = asyncio.create_task(_load(settings, files, models))
    try:
        await asyncio.wait({serving, loading}, return_when=asyncio.FIRST_COMPLETED)
        if loading.done():
            loading.result()
            address = f"http://{settings.host}:{settings.port}/v1"
            Console(soft_wrap=True, highlight=False).print(f"LLM server ready: {address} ({', '.join(models.names())})")
            await serving
    finally:
        server.should_exit = True
        loading.cancel()
        ending.cancel()
        await asyncio.gather(serving, loading, ending, return_exceptions=True)
        await _close(models)


async def _drain(drain: Drain, models: Models, server: uvicorn.Server) -> None:
    """Once told to end: lets requests in flight finish, ends those that take too long with an error, then the server.

    The port stays open meanwhile, so that new requests hear 503 and when to come back instead of a closed door.
    """
    await drain.begun()
    if not await drain.idle(drain.drain_s):
        if models.language is not None:
            await models.language.engine.close()
        await drain.idle(_LAST_WORDS_S)
    server.should_exit = True


def _http_config(settings: ServingSettings, models: Models, drain: Drain) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(settings, models, drain),
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_LAST_WORDS_S,
    )


async def _load(settings: ServingSettings, files: ModelFiles, models: Models) -> None:
    """Loads both models side by side.

    Raises:
        ServingError: One can't be loaded; the other is closed by the caller.
    """
    results = await asyncio.gather(
        _load_language(settings, files.language, models),
        _load_embedding(settings, files.embedding, models),
        return_exceptions=True,
    )
    for result in results:
        if result is not None:
            raise result


async def _load_language(settings: ServingSettings, path: Path, models: Models) -> None:
    tokenizer = await asyncio.to_thread(load_tokenizer, path)
    warming = asyncio.create_task(asyncio.to_thread(tokenizer.warm_up))  # beside the loading of the model
    name = served_name(settings.model)
    if await asyncio.to_thread(needs_transformers, path):
        fallback = await TransformersEngine.start(settings, path, tokenizer)
        await warming
        models.language = LanguageModel(name, fallback, tokenizer, fallback.max_model_len, backend="transformers")
        return
    engine = await NativeEngine.start(settings, path, tokenizer)
    packs = await open_shelf(settings, path, tokenizer, engine)
    await warming
    models.language = LanguageModel(name, engine, tokenizer, engine.max_model_len, packs, structures=engine.structures)


async def _load_embedding(settings: ServingSettings, path: Path | None, models: Models) -> None:
    if path is not None:
        models.embedding = await EmbeddingModel.start(
            served_name(settings.embedding_model),
            path,
            threads=settings.embedding_threads,
            dtype=settings.dtype,
            stall_s=settings.embedding_stall_s,
            kernels=settings.kernels,
            kernels_dir=settings.kernels_dir,
        )


async def _close(models: Models) -> None:
    if models.embedding is not None:
        await models.embedding.close()
    if models.language is not None:
        if models.language.packs is not None:
            await models.language.packs.close()
        await models.language.engine.close()


class _Server(uvicorn.Server):
    """Drains on a signal, then ends with code 0; a second signal ends it at once.

    Uvicorn itself would close the port at once, raise the signal again and die of it.
    """

    def __init__(self, config: uvicorn.Config, drain: Drain) -> None:
        super().__init__(config)
        self._drain = drain

    def _on_signal(self) -> None:
        if self._drain.is_draining:
            self.should_exit = self.force_exit = True
        self._drain.begin()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        for which in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(which, self._on_signal)
        try:
            yield
        finally:
            for which in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(which)
