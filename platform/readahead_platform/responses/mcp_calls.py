"""Calls of MCP tools within a response, told as OpenAI's `mcp_list_tools` and `mcp_call` items."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from readahead_agents.calls import CallLog
from readahead_agents.errors import ToolsetUnavailable
from readahead_agents.mcp.external import SEPARATOR
from readahead_agents.mcp.toolset import ToolOutcome, ToolSpec
from readahead_platform.responses.approvals import request_item, tool_is_missing
from readahead_platform.responses.found_passages import SEARCH, FoundPassages
from readahead_platform.responses.items import MCP_CALL, ChatMessage, chat_messages
from readahead_platform.responses.tool_descriptions import described
from readahead_platform.responses.tool_servers import ToolServer
from readahead_platform.responses.writer import Event, Item, ResponseWriter

MAX_TOOLS = 64
MAX_NAME_CHARS = 64
"""What chat completions take."""
MAX_NAMED = 8
"""Of the tools that are left out."""
MAX_OUTPUT_CHARS = 8000
CALL_S = 300.0
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")


class McpCalls:
    """The MCP tools of one response. The model knows them as `label__tool`."""

    def __init__(self, writer: ResponseWriter, servers: Sequence[ToolServer], found: FoundPassages) -> None:
        """Args:
        found: Is told what searches of our own server find.
        """
        self._writer = writer
        self._servers = servers
        self._tools: dict[str, tuple[ToolServer, ToolSpec]] = {}
        self._described: dict[str, dict[str, Any]] = {}
        self._done: dict[str, Item] = {}
        self._found = found
        self._log = CallLog()

    @property
    def names(self) -> set[str]:
        return set(self._tools)

    async def list_tools(self) -> list[Event]:
        """Tells each server's tools, or why there are none."""
        events: list[Event] = []
        for server in self._servers:
            events += await self._listed(server)
        return events

    def for_chat(self) -> list[dict[str, Any]]:
        """As chat completions have them, in the order of their names."""
        return [
            {"type": "function", "function": {"name": name, **told}} for name, told in sorted(self._described.items())
        ]

    def is_new(self, wanted: Item) -> bool:
        """Whether a call is worth making: it was not made before, or may come to something else this time."""
        arguments = _parsed(wanted["arguments"])
        _, spec = self._tools[wanted["name"]]
        return self._log.before(spec, {"cut": wanted["arguments"]} if arguments is None else arguments) is None

    async def call(self, wanted: Item, seconds: float = CALL_S) -> AsyncGenerator[Event, None]:
        """Runs a call that the model made; one that fails tells so, to the model too.

        Args:
            wanted: With `approval_request_id` where the client approved it.
            seconds: That it may take; `CALL_S` at most.
        """
        server, spec = self._tools[wanted["name"]]
        item: Item = {
            "id": f"{MCP_CALL}{secrets.token_hex(12)}",
            "type": "mcp_call",
            "server_label": server.label,
            "name": _own_name(spec),
            "arguments": wanted["arguments"],
            "output": None,
            "error": None,
            "approval_request_id": wanted.get("approval_request_id"),
            "status": "in_progress",
        }
        self._done[wanted["id"]] = item
        yield self._writer.add(item)
        yield self._writer.tell("response.mcp_call.in_progress", item)
        yield self._writer.tell("response.mcp_call_arguments.done", item, arguments=item["arguments"])
        outcome = await self._outcome(server, spec, wanted["arguments"], min(seconds, CALL_S))
        text = outcome.text[:MAX_OUTPUT_CHARS]
        if outcome.ok:
            item["output"] = text
        else:
            item["error"] = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
        yield self._writer.tell(f"response.mcp_call.{'completed' if outcome.ok else 'failed'}", item)
        yield self._writer.finish(item, "completed" if outcome.ok else "failed")

    async def approved(self, calls: Sequence[Mapping[str, Any]]) -> AsyncGenerator[Event, None]:
        """Runs calls that the client approved.

        Raises:
            ApiError: A tool is not among those of this response; none of the calls was made.
        """
        for call in calls:
            if call["name"] not in self._tools:
                raise tool_is_missing(call["name"])
        for call in calls:
            async for event in self.call({**call, "approval_request_id": call["id"]}):
                yield event

    def must_ask(self, wanted: Item) -> bool:
        """Whether the client has to approve a call that the model made; one that was cut fails without a word."""
        if _parsed(wanted["arguments"]) is None:
            return False
        server, spec = self._tools[wanted["name"]]
        return spec.needs_approval or server.wanted.must_ask(_own_name(spec), read_only=spec.read_only)

    def ask(self, wanted: Item) -> list[Event]:
        """Asks for approval, which comes with a later response."""
        server, spec = self._tools[wanted["name"]]
        item = request_item(server.label, _own_name(spec), wanted["arguments"], f"mcpr_{secrets.token_hex(12)}")
        return [self._writer.add(item), self._writer.finish(item)]

    def messages(self, wanted: Mapping[str, Any]) -> list[ChatMessage]:
        """A call that ran, and its result, as the model reads them on."""
        return chat_messages([self._done[wanted["id"]]])

    async def _outcome(self, server: ToolServer, spec: ToolSpec, arguments: str, seconds: float) -> ToolOutcome:
        parsed = _parsed(arguments)
        if parsed is None:
            return ToolOutcome(ok=False, text="The arguments are cut off: they are no JSON object.")
        assert server.tools is not None
        try:
            outcome = await server.tools.call_tool(spec.name, parsed, timeout_s=seconds)
        except ToolsetUnavailable as error:
            return ToolOutcome(ok=False, text=error.message)
        self._log.after(spec, parsed, outcome)
        if server.is_own and spec.name == SEARCH and outcome.data is not None:
            self._found.add(outcome.data)
        return outcome

    async def _listed(self, server: ToolServer) -> list[Event]:
        item: Item = {
            "id": f"mcpl_{secrets.token_hex(12)}",
            "type": "mcp_list_tools",
            "server_label": server.label,
            "tools": [],
        }
        events = [self._writer.add(item), self._writer.tell("response.mcp_list_tools.in_progress", item)]
        specs = await server.tools.list_tools() if server.tools is not None else []
        left_out = []
        for spec in specs:
            name, told = _UNFIT.sub("_", f"{server.label}{SEPARATOR}{_own_name(spec)}"), described(spec)
            if told is None or len(name) > MAX_NAME_CHARS or len(self._tools) == MAX_TOOLS:
                left_out.append(spec)
                continue
            self._tools[name], self._described[name] = (server, spec), told
            shown = {"description": told["description"], "input_schema": told["parameters"]}
            item["tools"].append({"name": _own_name(spec), **shown})
        if server.error or left_out:
            item["error"] = server.error or _left_out(left_out)
        events.append(self._writer.tell(f"response.mcp_list_tools.{'failed' if server.error else 'completed'}", item))
        events.append(self._writer.finish(item))
        return events


def _left_out(specs: Sequence[ToolSpec]) -> str:
    names = ", ".join(repr(_own_name(spec)[:MAX_NAME_CHARS]) for spec in specs[:MAX_NAMED])
    why = f"over the {MAX_TOOLS} tools of a response, or described at too great a length"
    return f"Left out, as they are {why}: {names}{', …' if len(specs) > MAX_NAMED else ''}."


def _own_name(spec: ToolSpec) -> str:
    """Without the server's name, under which our client keeps external tools apart."""
    return spec.name.split(SEPARATOR, 1)[-1]


def _parsed(arguments: str) -> dict[str, Any] | None:
    """None for what is no JSON object, as arguments are that were cut."""
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None
