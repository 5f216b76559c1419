"""The part of `readahead mcp` that needs the MCP library: standard input and output on one side, /mcp on the other."""

from __future__ import annotations

from contextlib import AsyncExitStack
from importlib.metadata import version

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server

from readahead_agents.mcp.bridge import bridge
from readahead_platform.credentials import read_credentials
from readahead_platform.errors import CommandFailed
from readahead_platform.settings import Settings

_TIMEOUT = httpx2.Timeout(600.0, connect=5.0)
"""Of silence: an answer tells its progress on the way."""


async def run_bridge(settings: Settings) -> None:
    """Returns when the client closes standard input.

    Raises:
        CommandFailed: The server cannot be reached, or refuses the key.
    """
    key, url = settings.api_key or read_credentials(settings.home), f"{settings.client_url}/mcp"
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT))
        try:
            client = await stack.enter_async_context(Client(streamable_http_client(url, http_client=http)))
        except (MCPError, OSError, httpx2.HTTPError, ExceptionGroup) as error:
            raise CommandFailed(f"No MCP server answers at {url}: {_leaf(error)}", "no_server") from error
        server = bridge(client, name="readahead", version=version("readahead"))
        read, write = await stack.enter_async_context(stdio_server())
        await server.run(read, write, server.create_initialization_options())


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
