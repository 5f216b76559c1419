"""The seam to tools, and MCP behind it.

Two planes of failure: a tool that ran and failed gives a `ToolOutcome` with `ok=False`, whose text the model and the
user may read; a server that cannot be reached or breaks the protocol raises `ToolsetUnavailable`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from mcp import Client, MCPError, StdioServerParameters
from mcp.client import Transport
from mcp.server.mcpserver import MCPServer
from mcp.types import CallToolResult, TextContent, Tool
from pydantic import ValidationError

from readahead_agents.errors import ToolsetUnavailable

Target = MCPServer | StdioServerParameters | Transport | str
Result = TypeVar("Result")
MAX_RESULT_CHARS = 20_000
MAX_TOOL_PAGES = 20


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as its server describes it. Name and description are data of the server, not instructions to us."""

    name: str
    description: str
    input_schema: dict[str, Any]
    read_only: bool
    repeatable: bool = False
    """Its own server says that calling it twice does what calling it once does."""
    server: str = ""
    """The external server that it belongs to; empty for our own actions. Set by us, never by a server."""
    needs_approval: bool = False
    """It may change something, and each call waits for somebody's word. Set by us, never by a server."""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call came to. `data` is the structured output, where the tool has one."""

    ok: bool
    text: str
    data: dict[str, Any] | None = None


class Toolset(Protocol):
    """Some tools. Raises `ToolsetUnavailable` where they cannot be reached."""

    async def list_tools(self) -> list[ToolSpec]:
        """The tools, sorted by name: prompts that list them share their beginning."""
        ...

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        """Calls a tool; cancelling ends the tool's work."""
        ...


class McpToolset:
    """The tools of any MCP server: one in this process, a command on stdio, or a URL.

    Open and close it in the same task.
    """

    def __init__(self, target: Target, *, silence_s: float | None = None) -> None:
        """Args:
        silence_s: Seconds after which a call that tells no progress is ended; None leaves it the call's own limit.
        """
        self._client = Client(target)
        self._silence_s = silence_s
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._stack.enter_async_context(self._client)
        except (MCPError, OSError, ExceptionGroup) as error:
            raise ToolsetUnavailable(f"A tool server cannot be reached: {_leaf(error)}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # the error is not passed on to the client, whose task groups would wrap it
        await self._stack.aclose()

    async def list_tools(self) -> list[ToolSpec]:
        tools: list[Tool] = []
        cursor: str | None = None
        for _ in range(MAX_TOOL_PAGES):  # a paginator that never ends must not hang a run
            page = await self._guarded(self._client.list_tools(cursor=cursor))
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return sorted(map(_spec, tools), key=lambda tool: tool.name)

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._silence_s) as silence:

                async def heard(progress: float, total: float | None, message: str | None) -> None:
                    if self._silence_s is not None:
                        silence.reschedule(loop.time() + self._silence_s)

                call = self._client.call_tool(name, arguments, read_timeout_seconds=timeout_s, progress_callback=heard)
                return _outcome(name, await self._guarded(call))
        except TimeoutError:
            if not silence.expired():
                raise
            return ToolOutcome(ok=False, text=f"Stopped: {name} told nothing for {self._silence_s:g} seconds.")

    async def _guarded(self, call: Awaitable[Result]) -> Result:
        try:
            return await call
        except (MCPError, ValidationError, OSError) as error:
            raise ToolsetUnavailable(f"A tool server failed: {error}") from error


@dataclass(frozen=True, slots=True)
class FilteredToolset:
    """The tools of another toolset that `keep` accepts; the others cannot be called either."""

    inner: Toolset
    keep: Callable[[ToolSpec], bool]

    async def list_tools(self) -> list[ToolSpec]:
        return [tool for tool in await self.inner.list_tools() if self.keep(tool)]

    async def call_tool(self, name: str, arguments: dict[str, Any], *, timeout_s: float) -> ToolOutcome:
        if all(tool.name != name for tool in await self.list_tools()):
            return ToolOutcome(ok=False, text=f"There is no tool {name!r} here.")
        return await self.inner.call_tool(name, arguments, timeout_s=timeout_s)


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _spec(tool: Tool) -> ToolSpec:
    told = tool.annotations
    read_only = told is not None and told.read_only_hint is True
    repeatable = read_only or (told is not None and told.idempotent_hint is True)
    return ToolSpec(tool.name, tool.description or "", tool.input_schema, read_only, repeatable)


def _outcome(name: str, result: CallToolResult) -> ToolOutcome:
    text = "\n".join(part.text for part in result.content if isinstance(part, TextContent))[:MAX_RESULT_CHARS]
    if result.is_error:
        return ToolOutcome(ok=False, text=text.removeprefix(f"Error executing tool {name}: "))
    return ToolOutcome(ok=True, text=text, data=result.structured_content)
