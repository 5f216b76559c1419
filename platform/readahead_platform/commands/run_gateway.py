"""The part of `readahead up` that needs the whole product: ingest the samples, greet, serve."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from pathlib import Path

import typer

from readahead_platform.commands.progress import progress_view
from readahead_platform.gateway.tenants import DEFAULT_TENANT
from readahead_platform.samples import SAMPLES_KB, first_question, ingest_samples
from readahead_platform.service import Service, running_service
from readahead_platform.settings import Settings
from readahead_platform.supervisor import LlmSupervisor
from readahead_retrieval.types import Document, DocumentState


async def run_gateway(
    settings: Settings,
    supervisor: LlmSupervisor,
    gateway_socket: socket.socket,
    embedding_model: Path,
    samples: Path | None,
) -> None:
    """Returns when the gateway ends; its caller cancels it on a signal."""
    async with running_service(settings, supervisor, gateway_socket, embedding_model) as service:
        question = await _ingest(service, samples)
        _greet(settings, service, question)
        await asyncio.shield(service.stopped)


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
        there = (
            "" if settings.port == Settings.model_fields["port"].default else f"READAHEAD_URL={settings.client_url} "
        )
        typer.echo(f'  Try       {there}{_program()} ask {SAMPLES_KB} "{question}"')
    typer.echo("  Stop with Ctrl-C.")


def _program() -> str:
    """What to type for `readahead` in this folder: an environment that is not active has no place on PATH."""
    here = Path(sys.executable).with_name("readahead")
    found = shutil.which("readahead")
    if not here.exists() or (found is not None and Path(found).samefile(here)):
        return "readahead"
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)
