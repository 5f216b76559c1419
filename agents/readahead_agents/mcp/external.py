"""External MCP servers beside our own actions: each filtered, named apart, and missed rather than mourned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from readahead_agents.errors import ToolsetUnavailable
from readahead_agents.mcp.server_settings import McpServerSettings
from readahead_agents.mcp.toolset import FilteredToolset, McpToolset, Target, ToolOutcome, Toolset, ToolSpec

SEPARATOR = "__"
MAX_NAME_CHARS = 60
"""Of server and tool together: some clients and model APIs refuse longer ones."""


@dataclass(frozen=True, slots=True)
class NamedToolset:
    """Another toolset's tools under its server's name. They count as read-only: the filter beneath let them through."""

    prefix: str
    inner: Toolset

    async def list_tools(self) -> list[ToolSpec]:
        named = [
            replace(tool, name=f"{self.prefix}{SEPARATOR}{tool.name}", read_only=True, server=self.prefix)
            for tool in await self.inner.list_tools()
        ]
        return [tool for tool in named if len(tool.name) <= MAX_NAME_CHARS]

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        own = name.removeprefix(f"{self.prefix}{SEPARATOR}")
        return await self.inner.call_tool(own, arguments, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True)
class JoinedToolset:
    """Several toolsets as one; a tool belongs to the first that has its name."""

    parts: Sequence[Toolset]

    async def list_tools(self) -> list[ToolSpec]:
        owned = await self._owned()
        return [spec for _, (spec, _) in sorted(owned.items())]

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        owned = await self._owned()
        if name not in owned:
            return ToolOutcome(ok=False, text=f"There is no tool {name!r} here.")
        return await owned[name][1].call_tool(name, arguments, timeout_s=timeout_s)

    async def _owned(self) -> dict[str, tuple[ToolSpec, Toolset]]:
        owned: dict[str, tuple[ToolSpec, Toolset]] = {}
        for part in self.parts:
            for spec in await part.list_tools():
                owned.setdefault(spec.name, (spec, part))
        return owned


@dataclass(frozen=True, slots=True)
class ExternalTools:
    """What could be reached, and a sentence for each server that could not."""

    toolsets: tuple[Toolset, ...]
    missing: tuple[str, ...]


@asynccontextmanager
async def external_tools(servers: Sequence[McpServerSettings]) -> AsyncGenerator[ExternalTools, None]:
    """Connects to every server for one run. Open and close it in the same task."""
    toolsets: list[Toolset] = []
    missing: list[str] = []
    async with AsyncExitStack() as stack:
        for settings in servers:
            try:
                toolsets.append(await stack.enter_async_context(_connected(settings)))
            except (ToolsetUnavailable, TimeoutError) as error:
                missing.append(f"The tools of {settings.name!r} are not there: {error or 'no answer in time'}")
        yield ExternalTools(tuple(toolsets), tuple(missing))


@asynccontextmanager
async def _connected(settings: McpServerSettings) -> AsyncIterator[Toolset]:
    async with AsyncExitStack() as stack:
        toolset = McpToolset(await _target(settings, stack), silence_s=settings.silence_s)
        async with asyncio.timeout(settings.connect_s):
            await stack.enter_async_context(toolset)
            listed = _Listed(toolset, await toolset.list_tools(), settings.call_s)
        yield NamedToolset(settings.name, FilteredToolset(listed, lambda tool: _may_call(settings, tool)))


async def _target(settings: McpServerSettings, stack: AsyncExitStack) -> Target:
    if settings.command is not None:
        env = {name: value.get_secret_value() for name, value in settings.env.items()}
        return StdioServerParameters(command=settings.command, args=list(settings.args), env=env)
    assert settings.url is not None
    headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
    timeout = httpx2.Timeout(settings.call_s, connect=settings.connect_s)
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=timeout))
    return streamable_http_client(settings.url, http_client=http)


@dataclass(frozen=True, slots=True)
class _Listed:
    """Tools as they were when the run began: what a server adds meanwhile is not part of it."""

    inner: Toolset
    tools: Sequence[ToolSpec]
    call_s: float

    async def list_tools(self) -> list[ToolSpec]:
        return list(self.tools)

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        return await self.inner.call_tool(name, arguments, timeout_s=min(timeout_s, self.call_s))


def _may_call(settings: McpServerSettings, tool: ToolSpec) -> bool:
    if tool.name in settings.deny or (settings.allow is not None and tool.name not in settings.allow):
        return False
    return tool.read_only or tool.name in settings.approved
