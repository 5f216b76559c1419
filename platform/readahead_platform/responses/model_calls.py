"""One call of a plain model, as it streams: text and calls of tools."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import LlmClient
from readahead_platform.responses.writer import Event, Item, MessageWriter, ResponseWriter

_DONE = b"[DONE]"


@dataclass(slots=True)
class ModelCall:
    """What a call came to; filled while it streams."""

    finish_reason: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    calls: list[Item] = field(default_factory=list)
    """The `function_call` items, complete at the end."""
    goes_on: bool = False
    """Whether all of them are calls that are made here, before the model is called again."""
    waits: bool = False
    """Whether some of them wait for the client's word."""

    @property
    def status(self) -> str:
        """Of the items that it wrote."""
        return "incomplete" if self.finish_reason == "length" else "completed"


async def stream_call(
    llm: LlmClient,
    tenant: str,
    body: Mapping[str, Any],
    message: MessageWriter,
    writer: ResponseWriter,
    call: ModelCall,
    hidden: set[str],
) -> AsyncGenerator[Event, None]:
    """Streams one chat completion as events of a response.

    Args:
        message: Takes the text; it is ended, and left open for its citations.
        hidden: Names of tools whose calls are not the client's: they are collected and not told.

    Raises:
        ApiError: The model's server refused, or is gone.
    """
    open_calls = _OpenCalls(writer, call, hidden)
    async with aclosing(_chunks(llm, tenant, body)) as chunks:
        async for chunk in chunks:
            call.usage = chunk.get("usage") or call.usage
            for choice in chunk["choices"]:
                if content := choice["delta"].get("content"):
                    for event in message.write(content):
                        yield event
                for part in choice["delta"].get("tool_calls") or []:
                    for event in open_calls.add(part):
                        yield event
                call.finish_reason = choice.get("finish_reason") or call.finish_reason
    for event in (*message.end(), *open_calls.close(call.status)):
        yield event


class _OpenCalls:
    """Calls of tools, which arrive piece by piece and one after another."""

    def __init__(self, writer: ResponseWriter, call: ModelCall, hidden: set[str]) -> None:
        self._writer = writer
        self._call = call
        self._hidden = hidden
        self._by_index: dict[int, Item] = {}

    def add(self, part: Mapping[str, Any]) -> Iterator[Event]:
        function = part.get("function") or {}
        item = self._by_index.get(part["index"])
        if item is None:
            item = self._by_index[part["index"]] = {
                "id": f"fc_{secrets.token_hex(12)}",
                "type": "function_call",
                "call_id": part["id"],
                "name": function["name"],
                "arguments": "",
                "status": "in_progress",
            }
            self._call.calls.append(item)
            if item["name"] not in self._hidden:
                yield self._writer.add(item)
        if delta := function.get("arguments"):
            item["arguments"] += delta
            if item["name"] not in self._hidden:
                yield self._writer.tell("response.function_call_arguments.delta", item, delta=delta)

    def close(self, status: str) -> Iterator[Event]:
        for item in self._call.calls:
            if item["name"] in self._hidden:
                continue
            done = {"arguments": item["arguments"], "name": item["name"]}
            yield self._writer.tell("response.function_call_arguments.done", item, **done)
            yield self._writer.finish(item, status)


async def _chunks(llm: LlmClient, tenant: str, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    whole = {**body, "stream": True, "stream_options": {"include_usage": True}}
    frames = llm.stream("/v1/chat/completions", whole, tenant=tenant)
    async for frame in frames:
        data = frame.removeprefix(b"data:").strip()
        if data == _DONE:
            return
        chunk: dict[str, Any] = json.loads(data)
        if "error" in chunk:
            error = chunk["error"]
            kind = error.get("type") or "server_error"
            raise ApiError(502, error["message"], error_type=kind, param=error.get("param"), code=error.get("code"))
        yield chunk
