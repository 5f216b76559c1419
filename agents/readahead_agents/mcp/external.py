"""External MCP servers beside our own actions: each filtered, named apart, and missed rather than mourned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from readahead_agents.errors import ToolsetUnavailable
from readahead_agents.mcp.server_settings import McpServerSettings
from readahead_agents.mcp.toolset import McpToolset, Target, ToolOutcome, Toolset, ToolSpec

SEPARATOR = "__"
MAX_NAME_CHARS = 60
"""Of server and tool together: some clients and model APIs refuse longer ones."""


@dataclass(frozen=True, slots=True)
class NamedToolset:
    """Another toolset's tools under its server's name."""

    prefix: str
    inner: Toolset

    async def list_tools(self) -> list[ToolSpec]:
        named = [
            replace(tool, name=f"{self.prefix}{SEPARATOR}{tool.name}", server=self.prefix)
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
async def external_tools(
    servers: Sequence[McpServerSettings], *, asking: bool = False
) -> AsyncGenerator[ExternalTools, None]:
    """Connects to every server for one run, side by side, each within its own time.

    Args:
        asking: Whether somebody can be asked. Then tools that are neither marked read-only nor approved by the operator
            are there too, as such that need approval.
    """
    connections = [_Connection(settings, asking=asking) for settings in servers]
    try:
        found = await asyncio.gather(*(connection.opened() for connection in connections))
        toolsets = tuple(each for each in found if not isinstance(each, str))
        yield ExternalTools(toolsets, tuple(each for each in found if isinstance(each, str)))
    finally:
        await asyncio.gather(*(connection.close() for connection in connections))


class _Connection:
    """One server's connection, held by a task of its own: the client must be closed by the task that opened it."""

    def __init__(self, settings: McpServerSettings, *, asking: bool) -> None:
        self._settings = settings
        self._asking = asking
        self._opened: asyncio.Future[Toolset] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._hold())

    async def opened(self) -> Toolset | str:
        """The tools; or why there are none, in one sentence."""
        try:
            async with asyncio.timeout(self._settings.connect_s):
                return await asyncio.shield(self._opened)
        except ToolsetUnavailable as error:
            why = error.message
        except TimeoutError:
            self._opened.cancel()
            self._task.cancel()
            why = f"no answer in {self._settings.connect_s:g} seconds"
        return f"The tools of {self._settings.name!r} are not there: {why}"

    async def close(self) -> None:
        self._over.set()
        if not self._opened.done():
            self._task.cancel()
        await asyncio.wait([self._task])

    async def _hold(self) -> None:
        settings = self._settings
        try:
            async with AsyncExitStack() as stack:
                toolset = McpToolset(await _target(settings, stack), silence_s=settings.silence_s)
                await stack.enter_async_context(toolset)
                tools = _offered(settings, await toolset.list_tools(), asking=self._asking)
                self._opened.set_result(NamedToolset(settings.name, _Listed(toolset, tools, settings.call_s)))
                await self._over.wait()
        except ToolsetUnavailable as error:
            if not self._opened.done():  # what ends a call later is told to whoever calls
                self._opened.set_exception(error)


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
    """Tools as they were when the run began: what a server adds meanwhile is not part of it, and no tool that was left
    out can be called."""

    inner: Toolset
    tools: Sequence[ToolSpec]
    call_s: float

    async def list_tools(self) -> list[ToolSpec]:
        return list(self.tools)

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        if all(tool.name != name for tool in self.tools):
            return ToolOutcome(ok=False, text=f"There is no tool {name!r} here.")
        return await self.inner.call_tool(name, arguments, timeout_s=min(timeout_s, self.call_s))


def _offered(settings: McpServerSettings, tools: Sequence[ToolSpec], *, asking: bool) -> list[ToolSpec]:
    """What the operator's lists leave; what may change something only where the operator approved it, or is asked."""
    listed = [
        tool
        for tool in tools
        if tool.name not in settings.deny and (settings.allow is None or tool.name in settings.allow)
    ]
    marked = [
        replace(tool, needs_approval=not tool.read_only and tool.name not in settings.approved) for tool in listed
    ]
    return [tool for tool in marked if asking or not tool.needs_approval]
