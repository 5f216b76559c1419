"""`readahead mcp`: the knowledge server on stdio, for clients that start their tools as programs."""

from __future__ import annotations

from typing import Annotated

import typer


def mcp(
    stdio: Annotated[bool, typer.Option("--stdio", help="Speak on standard input and output; the default.")] = True,
) -> None:
    """Serve your documents to an MCP client that starts this command.

    Needs a running server: the one at READAHEAD_URL, with READAHEAD_API_KEY. Clients that speak HTTP need no command:
    they connect to /mcp of the server.
    """
    import asyncio

    from readahead_platform.commands.mcp_bridge import run_bridge
    from readahead_platform.settings import read_settings

    asyncio.run(run_bridge(read_settings().settings))
