"""An MCP server that takes no argument which it does not know, and says in words what is wrong with the others."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult
from pydantic import ValidationError

from readahead_agents.mcp.argument_errors import of_names, of_validation, told


class StrictServer(MCPServer):
    """The SDK drops arguments that a tool does not take, so that a misspelt one looks as if it had been used, and
    hands on the validator's text where one is wrong."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Raises `ToolError`, naming the arguments and all that the tool takes."""
        schemas = {tool.name: tool.input_schema for tool in await self.list_tools()}
        takes: dict[str, Any] = schemas.get(name, {}).get("properties", {})
        if name in schemas and arguments.keys() - takes.keys():
            wrong = of_names(arguments, takes, schemas[name].get("required", ()))
            raise ToolError(told(name, list(takes), wrong))
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            raise ToolError(told(name, list(takes), of_validation(error.__cause__))) from error
