"""A server that hands every request on to another: what lets a client that speaks stdio only reach one over HTTP."""

from __future__ import annotations

from typing import Any

from mcp import Client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)

_Context = ServerRequestContext[Any, Any]
_Page = PaginatedRequestParams | None


def bridge(client: Client, *, name: str, version: str) -> Server[Any]:
    """Tools, resources and prompts of the server behind an open client, with progress and cancellation."""
    relay = _Relay(client)
    return Server(
        name,
        version=version,
        instructions=client.instructions,
        on_list_tools=relay.list_tools,
        on_call_tool=relay.call_tool,
        on_list_resources=relay.list_resources,
        on_list_resource_templates=relay.list_resource_templates,
        on_read_resource=relay.read_resource,
        on_list_prompts=relay.list_prompts,
        on_get_prompt=relay.get_prompt,
    )


class _Relay:
    """One handler a method. Cancelling a handler cancels the call behind it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_tools(self, _: _Context, params: _Page) -> ListToolsResult:
        return await self._client.list_tools(cursor=_cursor(params))

    async def call_tool(self, context: _Context, params: CallToolRequestParams) -> CallToolResult:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            await context.session.report_progress(progress, total, message)

        return await self._client.call_tool(params.name, params.arguments, progress_callback=tell)

    async def list_resources(self, _: _Context, params: _Page) -> ListResourcesResult:
        return await self._client.list_resources(cursor=_cursor(params))

    async def list_resource_templates(self, _: _Context, params: _Page) -> ListResourceTemplatesResult:
        return await self._client.list_resource_templates(cursor=_cursor(params))

    async def read_resource(self, _: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        return await self._client.read_resource(str(params.uri))

    async def list_prompts(self, _: _Context, params: _Page) -> ListPromptsResult:
        return await self._client.list_prompts(cursor=_cursor(params))

    async def get_prompt(self, _: _Context, params: GetPromptRequestParams) -> GetPromptResult:
        return await self._client.get_prompt(params.name, params.arguments)


def _cursor(params: _Page) -> str | None:
    return params.cursor if params is not None else None
