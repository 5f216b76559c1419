"""What `readahead up` does, and what it tells while it does it."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import typer

from readahead_platform.commands.models import ensure_models
from readahead_platform.errors import StartError
from readahead_platform.home import claimed_home
from readahead_platform.observe.logs import configure_logging
from readahead_platform.ports import bind_gateway, with_llm_port
from readahead_platform.settings import LoadedSettings, Settings
from readahead_platform.supervisor import supervised


def serve_everything(loaded: LoadedSettings, samples: Path | None) -> None:
    """Blocks until a signal. Models are fetched first, outside the event loop, so that Ctrl-C ends a download."""
    configure_logging()
    settings = loaded.settings
    with claimed_home(settings.home), bind_gateway(settings.host, settings.port) as gateway_socket:
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
    settings = with_llm_port(loaded)
    log_path = settings.home / "logs" / "llm.log"
    try:
        typer.echo("Starting the LLM server…", err=True)
        async with supervised(settings.serving, log_path, settings.gateway.llm_start_timeout_s) as supervisor:
            # These imports take seconds, in which the LLM server loads its models in a process of its own.
            from readahead_platform.commands.run_gateway import run_gateway

            await supervisor.or_failed(run_gateway(settings, supervisor, gateway_socket, embedding_model, samples))
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
