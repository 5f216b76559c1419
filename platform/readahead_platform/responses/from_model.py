"""A response from a plain model: its text, calls of the client's functions, and MCP tools called here in between."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from readahead_agents.llm.base import LanguageModel
from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import LlmClient
from readahead_platform.responses.approvals import approved_calls, without_marks
from readahead_platform.responses.items import ChatMessage, has_read_mcp
from readahead_platform.responses.mcp_calls import McpCalls
from readahead_platform.responses.model_calls import ModelCall, stream_call
from readahead_platform.responses.plain_links import PlainLinksWriter
from readahead_platform.responses.request import FunctionTool, McpTool, ResponseRequest
from readahead_platform.responses.tool_servers import ToolServers
from readahead_platform.responses.truncation import within_window
from readahead_platform.responses.writer import Event, MessageWriter, ResponseWriter


class ModelAnswer:
    """Answers one request of one tenant."""

    def __init__(
        self,
        llm: LlmClient,
        served: LanguageModel,
        servers: ToolServers,
        tenant: str,
        request: ResponseRequest,
        default_tokens: int,
        link_hosts: Sequence[str],
    ) -> None:
        """Args:
        served: The same model, as tokens are counted by it.
        default_tokens: Output tokens where the request names no bound.
        link_hosts: Where links may lead, beside this service, of a model that reads what MCP tools tell.
        """
        self._llm = llm
        self._served = served
        self._max_tokens = request.max_output_tokens or default_tokens
        self._servers = servers
        self._tenant = tenant
        self._request = request
        self._link_hosts = link_hosts

    async def events(self, writer: ResponseWriter, conversation: Sequence[ChatMessage]) -> AsyncGenerator[Event, None]:
        """The events behind those that begin a response, to its last one.

        The model is called until it calls no more MCP tools, or as often as `max_tool_calls` allows; then once more,
        without tools, so that a response ends with an answer, or with calls that wait for approval.
        """
        request = self._request
        wanted = [tool for tool in request.tools if isinstance(tool, McpTool)]
        approved = approved_calls(conversation)
        usage, left = _sum({}, {}), request.call_limit - len(approved)
        async with self._servers.opened(self._tenant, wanted) as servers:
            mcp = McpCalls(writer, servers)
            for event in await mcp.list_tools():
                yield event
            messages, told = await self._read(without_marks(conversation), mcp.for_chat())
            async for event in mcp.approved(approved):
                yield event
            messages += [message for call in approved for message in mcp.messages(call)]
            while True:
                call = ModelCall()
                body = self._body(messages, mcp.for_chat() if left > 0 else [], may_call=left > 0)
                message = self._message(writer, reads_mcp=bool(wanted) or has_read_mcp(messages))
                async for event in stream_call(self._llm, self._tenant, body, message, writer, call, mcp.names):
                    yield event
                usage = _sum(usage, call.usage)
                ours = [item for item in call.calls if item["name"] in mcp.names][: max(left, 0)]
                if not ours or len(ours) < len(call.calls):
                    break
                waiting = [item for item in ours if mcp.must_ask(item)]
                for item in (each for each in ours if each not in waiting):
                    async for event in mcp.call(item):
                        yield event
                    messages += mcp.messages(item)
                for event in [event for item in waiting for event in mcp.ask(item)]:
                    yield event
                if waiting:
                    break
                left -= len(ours)
        yield writer.complete(usage, "max_output_tokens" if call.finish_reason == "length" else None, **told)

    def _message(self, writer: ResponseWriter, *, reads_mcp: bool) -> MessageWriter:
        """What a model writes that nobody but the client has told anything is the client's as it is."""
        return PlainLinksWriter(writer, self._link_hosts) if reads_mcp else MessageWriter(writer)

    async def _read(
        self, conversation: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[list[ChatMessage], dict[str, Any]]:
        """What the model reads of a conversation, and what the response tells of that."""
        if self._request.truncation == "disabled":
            return list(conversation), {}
        described = [*self._own_tools(), *tools]
        messages, remembered = await within_window(self._served, conversation, described, self._max_tokens)
        return messages, {"readahead": {"conversation": asdict(remembered), "notes": remembered.notes()}}

    def _own_tools(self) -> list[dict[str, Any]]:
        return [tool.for_chat() for tool in self._request.tools if isinstance(tool, FunctionTool)]

    def _body(
        self, messages: Sequence[ChatMessage], tools: Sequence[dict[str, Any]], *, may_call: bool
    ) -> dict[str, Any]:
        request = self._request
        own = self._own_tools()
        body = {
            "model": request.model,
            "messages": list(messages),
            "max_completion_tokens": self._max_tokens,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "response_format": request.text.format.for_chat(),
        }
        if own or tools:
            body["tools"] = [*own, *tools]
            body["tool_choice"] = _tool_choice(request.tool_choice) if may_call else "none"
            body["parallel_tool_calls"] = request.parallel_tool_calls
        return {name: value for name, value in body.items() if value is not None}


def _tool_choice(choice: str | Mapping[str, Any]) -> str | dict[str, Any]:
    """As chat completions have it."""
    if isinstance(choice, str):
        return choice
    if choice.get("type") == "function" and isinstance(choice.get("name"), str):
        return {"type": "function", "function": {"name": choice["name"]}}
    message = f"The tool choice {dict(choice)!r} is not supported; use auto, required, none or a function."
    raise ApiError(400, message, param="tool_choice", code="unsupported_value")


_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


def _sum(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    summed = {name: first.get(name, 0) + second.get(name, 0) for name in _COUNTS}
    cached = [(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for usage in (first, second)]
    return {**summed, "prompt_tokens_details": {"cached_tokens": sum(cached)}}
