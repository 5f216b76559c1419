"""MCP servers that a response may name: those that the operator configured, and our own knowledge server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from mcp.server.mcpserver import MCPServer

from readahead_agents.mcp.external import JoinedToolset, external_tools
from readahead_agents.mcp.server_settings import McpServerSettings
from readahead_agents.mcp.toolset import FilteredToolset, McpToolset, Toolset
from readahead_platform.errors import ApiError
from readahead_platform.responses.request import McpTool

OWN_LABEL = "readahead"


@dataclass(frozen=True, slots=True)
class ToolServer:
    """A server's tools, or the reason why they are not there."""

    wanted: McpTool
    tools: Toolset | None
    error: str = ""

    @property
    def label(self) -> str:
        return self.wanted.server_label

    @property
    def is_own(self) -> bool:
        """Whether it is our own knowledge server."""
        return _is_own(self.wanted)


class ToolServers:
    """A client names a server and never a place to connect to: the addresses are the operator's."""

    def __init__(self, configured: Sequence[McpServerSettings], own: Callable[[str], MCPServer]) -> None:
        """Args:
        own: The knowledge server of a tenant, which reads only.
        """
        self._configured = {settings.name: settings for settings in configured}
        self._own = own

    def check(self, wanted: Sequence[McpTool]) -> None:
        """Raises `ApiError`, 400, for a server that there is none of."""
        for tool in wanted:
            if _is_own(tool) or self._settings(tool) is not None:
                continue
            known = ", ".join(repr(name) for name in [OWN_LABEL, *self._configured])
            message = f"There is no MCP server {tool.server_label!r} here; there are {known}. The operator adds others."
            raise ApiError(400, message, param="tools", code="unknown_mcp_server")

    @asynccontextmanager
    async def opened(self, tenant: str, wanted: Sequence[McpTool]) -> AsyncIterator[list[ToolServer]]:
        """Connects to them. Open and close it in the same task."""
        async with AsyncExitStack() as stack:
            yield [await self._open(tenant, tool, stack) for tool in wanted]

    async def _open(self, tenant: str, wanted: McpTool, stack: AsyncExitStack) -> ToolServer:
        allowed = wanted.allowed_tools
        if _is_own(wanted):
            own = await stack.enter_async_context(McpToolset(self._own(tenant)))
            tools: Toolset = FilteredToolset(own, lambda tool: allowed is None or tool.name in allowed)
            return ToolServer(wanted, tools)
        settings = self._settings(wanted)
        assert settings is not None, "checked before"
        if allowed is not None:
            kept = [name for name in allowed if settings.allow is None or name in settings.allow]
            settings = settings.model_copy(update={"allow": tuple(kept)})
        external = await stack.enter_async_context(external_tools([settings], asking=wanted.asks))
        if external.missing:
            return ToolServer(wanted, None, external.missing[0])
        return ToolServer(wanted, JoinedToolset(external.toolsets))

    def _settings(self, tool: McpTool) -> McpServerSettings | None:
        if tool.server_url is None:
            return self._configured.get(tool.server_label)
        return next((each for each in self._configured.values() if each.url == tool.server_url), None)


def _is_own(tool: McpTool) -> bool:
    return tool.server_label == OWN_LABEL and tool.server_url is None
