"""What `readahead up` does, and what it tells while it does it."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import typer

from readahead_platform.commands.models import ensure_models
from readahead_platform.commands.progress import progress_view
from readahead_platform.errors import StartError
from readahead_platform.gateway.tenants import DEFAULT_TENANT
from readahead_platform.samples import SAMPLES_KB, first_question, ingest_samples
from readahead_platform.service import Service, bind_gateway, running_service
from readahead_platform.settings import LoadedSettings, Settings
from readahead_retrieval.types import Document, DocumentState


def serve_everything(loaded: LoadedSettings, samples: Path | None) -> None:
    """Blocks until a signal. Models are fetched first, outside the event loop, so that Ctrl-C ends a download."""
    settings = loaded.settings
    settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with bind_gateway(settings.host, settings.port) as gateway_socket:
        embedding_model = ensure_models(settings, _models(settings), as_json=False)[-1]
        asyncio.run(_serve(loaded, gateway_socket, embedding_model, _existing(samples)))


def _existing(samples: Path | None) -> Path | None:
    if samples is None or samples.is_dir():
        return samples
    typer.echo(f"There is no folder {samples}, so no sample documents are ingested.", err=True)
    return None


def _models(settings: Settings) -> list[str]:
    if not settings.serving.embedding_model:
        raise StartError("serving.embedding_model is empty, and documents cannot be searched without one.")
    return [settings.serving.model, settings.serving.embedding_model]


async def _serve(
    loaded: LoadedSettings, gateway_socket: socket.socket, embedding_model: Path, samples: Path | None
) -> None:
    stopping = _cancel_on_signal()
    try:
        typer.echo("Starting the LLM server…", err=True)
        async with running_service(loaded, gateway_socket, embedding_model) as service:
            question = await _ingest(service, samples)
            _greet(loaded.settings, service, question)
            await asyncio.shield(service.stopped)
    except asyncio.CancelledError:
        if not stopping.is_set():
            raise
        typer.echo("Stopped.", err=True)


def _cancel_on_signal() -> asyncio.Event:
    """SIGINT and SIGTERM cancel the running task, whose contexts then stop everything in order."""
    loop, task, stopping = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
    assert task is not None

    def stop() -> None:
        stopping.set()
        task.cancel()

    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, stop)
    return stopping


async def _ingest(service: Service, samples: Path | None) -> str | None:
    """Ingests the samples and returns a question to try on them."""
    if samples is None:
        return None
    with progress_view(as_json=False) as view:

        def show(document: Document) -> None:
            view.update(document.name, document.state.value, *_position(document))

        documents = await ingest_samples(service.context.library, DEFAULT_TENANT, samples, show)
    for document in documents:
        if document.state is not DocumentState.SEARCHABLE:
            typer.echo(f"{document.name} cannot be searched: {document.error_message}", err=True)
    return first_question(samples)


def _position(document: Document) -> tuple[int, int]:
    """Pages while reading, chunks afterwards."""
    return (document.chunks_done, document.chunks) if document.chunks else (document.pages_done, document.pages)


def _greet(settings: Settings, service: Service, question: str | None) -> None:
    typer.echo(f"\nReadahead is ready at {settings.client_url}")
    if service.sign_in_links is not None:
        link = settings.client_url + service.sign_in_links.path(service.api_key)
        typer.echo(f"  Web page  {link} (signs you in, once)")
    typer.echo(f"  API key   {service.api_key}")
    typer.echo(f"  API       {settings.client_url}/v1 (OpenAI-compatible)")
    if question is not None:
        typer.echo(f'  Try       readahead ask {SAMPLES_KB} "{question}"')
    typer.echo("  Stop with Ctrl-C.")
