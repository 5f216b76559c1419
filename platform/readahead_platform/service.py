"""The library and the gateway over an LLM server, started in order and stopped in the opposite."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from readahead_platform.credentials import read_credentials, write_credentials
from readahead_platform.errors import SettingsError, StartError
from readahead_platform.gateway.app import create_app
from readahead_platform.gateway.context import GatewayContext, open_context
from readahead_platform.gateway.drain import Drain
from readahead_platform.gateway.tenants import DEFAULT_TENANT, TenantStore
from readahead_platform.settings import Settings
from readahead_platform.supervisor import LlmSupervisor
from readahead_platform.web.app import mount
from readahead_platform.web.sign_in_links import SignInLinks

_SWITCH_S = 0.0005
"""For how long a thread that computes, as one that cuts a long document into chunks, keeps the event loop waiting.

Python's own 5 ms are paid at each of the dozens of steps that a request takes.
"""
_GRACEFUL_SHUTDOWN_S = 3
"""For the web page's connections when the service stops; what the API has in flight is drained before."""
_KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that none is closed in the moment in which it is used again."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service that answers."""

    context: GatewayContext
    supervisor: LlmSupervisor
    api_key: str
    sign_in_links: SignInLinks | None
    """Makes links to the web page that need no typing; None where the page is off."""
    stopped: asyncio.Task[None]
    """Ends when the gateway does."""


@contextlib.asynccontextmanager
async def running_service(
    settings: Settings, supervisor: LlmSupervisor, gateway_socket: socket.socket, embedding_model: Path
) -> AsyncIterator[Service]:
    """Everything is up when the block begins; the gateway is gone when it ends.

    Args:
        supervisor: Of an LLM server that may still be starting.

    Raises:
        StartError: A part does not start; names it.
    """
    prepare_interpreter()
    await supervisor.ready()
    async with open_context(settings, supervisor, embedding_model) as context:
        api_key = await ensure_credentials(context.tenants, settings.home)
        app = create_app(context)
        links = mount(app, context) if settings.web else None
        spare_collector()
        async with serving(app, gateway_socket, context.drain) as stopped:
            yield Service(context, supervisor, api_key, links, stopped)


def prepare_interpreter() -> None:
    """Before an event loop that many share: what computes beside it lets it go on soon."""
    sys.setswitchinterval(_SWITCH_S)


def spare_collector() -> None:
    """Once everything is imported and built: the collector of cycles need not look through it again and again.

    A look through all of a loaded service took 0.3 s, in which no thread does anything.
    """
    gc.collect()
    gc.freeze()


async def ensure_credentials(tenants: TenantStore, home: Path) -> str:
    """The default tenant's key, made at the first start and when the stored one no longer works."""
    with contextlib.suppress(SettingsError):  # a damaged file is replaced
        stored = read_credentials(home)
        if stored is not None and await tenants.authenticate(stored) is not None:
            return stored
    key, _record = await tenants.create_key(DEFAULT_TENANT, "first key", admin=True)
    write_credentials(home, key)
    return key


class _Server(uvicorn.Server):
    """Leaves signals to the command, which has more to stop than a server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@contextlib.asynccontextmanager
async def serving(app: FastAPI, gateway_socket: socket.socket, drain: Drain) -> AsyncIterator[asyncio.Task[None]]:
    """Serves an app on a bound socket in this event loop until the block ends, and drains it then.

    The task ends when the server does.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACEFUL_SHUTDOWN_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[gateway_socket]))
    try:
        while not server.started:
            if serving.done():
                raise StartError(f"The gateway did not start: {serving.exception() or 'see the messages above'}.")
            await asyncio.sleep(0.01)
        yield serving
    finally:
        try:
            if not serving.done():
                await drain.run()
        finally:
            server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)  # what ended it early is told by the task itself
