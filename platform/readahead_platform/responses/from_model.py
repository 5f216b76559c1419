"""A response from a plain model: its text, calls of the client's functions, and MCP tools called here in between."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from readahead_agents.limits import Budget
from readahead_platform.errors import ApiError
from readahead_platform.gateway.context import GatewayContext
from readahead_platform.responses.annotations import file_citation
from readahead_platform.responses.approvals import approved_calls, without_marks
from readahead_platform.responses.found_passages import UNSUPPORTED, FoundPassages
from readahead_platform.responses.items import ChatMessage, has_read_mcp
from readahead_platform.responses.mcp_calls import McpCalls
from readahead_platform.responses.model_calls import ModelCall, stream_call
from readahead_platform.responses.plain_links import PlainLinksWriter
from readahead_platform.responses.request import FunctionTool, McpTool, ResponseRequest
from readahead_platform.responses.rounds import Rounds
from readahead_platform.responses.tool_servers import ToolServers
from readahead_platform.responses.truncation import within_window
from readahead_platform.responses.writer import Event, MessageWriter, ResponseWriter


class ModelAnswer:
    """Answers one request of one tenant."""

    def __init__(self, context: GatewayContext, servers: ToolServers, tenant: str, request: ResponseRequest) -> None:
        settings = context.settings
        self._context = context
        self._max_tokens = request.max_output_tokens or settings.gateway.response_tokens
        self._servers = servers
        self._tenant = tenant
        self._request = request
        self._rounds = Rounds(request.call_limit, Budget(settings.agents))
        self._found = FoundPassages(context.library, tenant, settings.retrieval.score_floor)
        self._usage = _sum({}, {})
        self._notes: list[str] = []

    async def events(self, writer: ResponseWriter, conversation: Sequence[ChatMessage]) -> AsyncGenerator[Event, None]:
        """The events behind those that begin a response, to its last one; once only.

        The model is called until it calls no more MCP tools, or no more new ones, or as often and as long as it may;
        then once more, without tools, so that a response ends with an answer, or with calls that wait for approval.
        What it says of passages that `kb_search` found for it is cited.
        """
        wanted = [tool for tool in self._request.tools if isinstance(tool, McpTool)]
        approved = approved_calls(conversation)
        self._rounds.spend(len(approved))
        call = ModelCall()
        async with self._servers.opened(self._tenant, wanted) as servers:
            mcp = McpCalls(writer, servers, self._found)
            for event in await mcp.list_tools():
                yield event
            messages, told = await self._read(without_marks(conversation), mcp.for_chat())
            async for event in mcp.approved(approved):
                yield event
            messages += [message for call in approved for message in mcp.messages(call)]
            while True:
                call = ModelCall()
                async for event in self._written(writer, messages, mcp, call, reads_mcp=bool(wanted)):
                    yield event
                if not call.goes_on:
                    break
                async for event in self._called(messages, mcp, call):
                    yield event
                if call.waits:
                    break
        notes = [*told.pop("notes", []), *self._rounds.notes, *self._notes]
        incomplete = "max_output_tokens" if call.finish_reason == "length" else None
        yield writer.complete(self._usage, incomplete, **_told(told, notes))

    async def _written(
        self,
        writer: ResponseWriter,
        messages: Sequence[ChatMessage],
        mcp: McpCalls,
        call: ModelCall,
        *,
        reads_mcp: bool,
    ) -> AsyncGenerator[Event, None]:
        """One call of the model, its text with citations; notes whether calls of MCP tools are to be made then."""
        may_call = self._rounds.may_call()
        message = self._message(writer, reads_mcp=reads_mcp or has_read_mcp(messages))
        body = self._body(messages, mcp.for_chat() if may_call else [], may_call=may_call)
        stream = stream_call(self._context.llm, self._tenant, body, message, writer, call, mcp.names)
        async with aclosing(stream) as events:
            async for event in events:
                yield event
        for annotation in await self._annotations(messages, message.text):
            for event in message.annotate(annotation):
                yield event
        for event in message.close(call.status):
            yield event
        self._usage = _sum(self._usage, call.usage)
        call.goes_on = may_call and bool(call.calls) and all(item["name"] in mcp.names for item in call.calls)

    async def _called(self, messages: list[ChatMessage], mcp: McpCalls, call: ModelCall) -> AsyncGenerator[Event, None]:
        """Makes the calls that the model wants, and asks for those that wait for approval."""
        waiting = [item for item in self._rounds.within(call.calls) if mcp.must_ask(item)]
        at_once = [item for item in call.calls if item not in waiting]
        for item in self._rounds.taken(at_once, mcp.is_new) if at_once else ():
            async for event in mcp.call(item, self._rounds.call_s):
                yield event
            messages += mcp.messages(item)
        for item in waiting:
            for event in mcp.ask(item):
                yield event
        call.waits = bool(waiting)

    async def _annotations(self, messages: Sequence[ChatMessage], text: str) -> list[dict[str, Any]]:
        if self._request.text.format.type != "text":
            return []
        question = next((turn["content"] for turn in reversed(messages) if turn["role"] == "user"), "")
        citations = await self._found.citations(question, text)
        if citations == ():
            self._notes.append(UNSUPPORTED)
        return [await file_citation(self._context.library, self._tenant, citation) for citation in citations or ()]

    def _message(self, writer: ResponseWriter, *, reads_mcp: bool) -> MessageWriter:
        """What a model writes that nobody but the client has told anything is the client's as it is."""
        return (
            PlainLinksWriter(writer, self._context.settings.agents.link_hosts) if reads_mcp else MessageWriter(writer)
        )

    async def _read(
        self, conversation: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[list[ChatMessage], dict[str, Any]]:
        """What the model reads of a conversation, and what the response tells of that."""
        if self._request.truncation == "disabled":
            return list(conversation), {}
        described, llm = [*self._own_tools(), *tools], self._context.llm_of(self._tenant)
        messages, remembered = await within_window(llm, conversation, described, self._max_tokens)
        return messages, {"conversation": asdict(remembered), "notes": remembered.notes()}

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


def _told(told: Mapping[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """Our own field, where there is something to tell."""
    return {"readahead": {**told, "notes": list(notes)}} if told or notes else {}


_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


def _sum(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    summed = {name: first.get(name, 0) + second.get(name, 0) for name in _COUNTS}
    cached = [(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0) for usage in (first, second)]
    return {**summed, "prompt_tokens_details": {"cached_tokens": sum(cached)}}
