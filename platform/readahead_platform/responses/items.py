"""Items of OpenAI's Responses, and the chat messages that models read instead."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from readahead_agents.llm.base import Message

ChatMessage = dict[str, Any]


class TextPart(BaseModel):
    """The only kind of content that is read."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["input_text", "output_text", "text"]
    text: str


class MessageItem(BaseModel):
    """A turn."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[TextPart]

    def for_chat(self) -> ChatMessage:
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class FunctionCallItem(BaseModel):
    """A call that the model made."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str

    def for_chat(self) -> ChatMessage:
        return called(self.call_id, self.name, self.arguments)


class FunctionOutputItem(BaseModel):
    """What the client's function returned."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[TextPart]

    def for_chat(self) -> ChatMessage:
        text = self.output if isinstance(self.output, str) else "".join(part.text for part in self.output)
        return {"role": "tool", "tool_call_id": self.call_id, "content": text}


class TraceItem(BaseModel):
    """What our own answers hold beside their text; clients send it back with the rest, and no model reads it."""

    model_config = ConfigDict(extra="allow")

    type: Literal["file_search_call", "mcp_call", "mcp_list_tools", "reasoning"]


def _kind(item: Any) -> str:
    kind = item.get("type", "message") if isinstance(item, Mapping) else getattr(item, "type", "message")
    return "trace" if kind in {"file_search_call", "mcp_call", "mcp_list_tools", "reasoning"} else str(kind)


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionOutputItem, Tag("function_call_output")]
    | Annotated[TraceItem, Tag("trace")],
    Discriminator(_kind),
    Field(),
]


def chat_messages(items: str | Sequence[InputItem]) -> list[ChatMessage]:
    """The conversation that the items are."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return [item.for_chat() for item in items if not isinstance(item, TraceItem)]


def turns(messages: Iterable[ChatMessage]) -> list[Message]:
    """What was said, for answers from documents: calls of functions are no part of it."""
    return [Message(each["role"], each["content"]) for each in messages if each["role"] != "tool" and each["content"]]


def called(call_id: str, name: str, arguments: str) -> ChatMessage:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def output_messages(output: Iterable[Mapping[str, Any]]) -> list[ChatMessage]:
    """A response's output as the chat that goes on from it."""
    messages: list[ChatMessage] = []
    for item in output:
        match item["type"]:
            case "message":
                text = "".join(part["text"] for part in item["content"] if part["type"] == "output_text")
                messages.append({"role": "assistant", "content": text})
            case "function_call":
                messages.append(called(item["call_id"], item["name"], item["arguments"]))
            case "mcp_call":
                messages.append(called(item["id"], f"{item['server_label']}__{item['name']}", item["arguments"]))
                content = item["output"] if item["output"] is not None else json.dumps(item["error"])
                messages.append({"role": "tool", "tool_call_id": item["id"], "content": content})
    return messages


def input_items(items: str | Sequence[InputItem]) -> list[dict[str, Any]]:
    """As `input_items` lists them: each with an id."""
    if isinstance(items, str):
        items = [MessageItem(role="user", content=items)]
    shown = []
    for item in items:
        listed = item.model_dump(mode="json")
        listed.setdefault("id", f"item_{secrets.token_hex(8)}")
        if isinstance(item, MessageItem) and isinstance(item.content, str):
            kind = "output_text" if item.role == "assistant" else "input_text"
            listed["content"] = [{"type": kind, "text": item.content}]
        shown.append(listed)
    return shown
