"""Items of OpenAI's Responses, and the chat messages that models read instead."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from readahead_agents.answering.passages import as_data
from readahead_agents.llm.base import Message
from readahead_platform.errors import ApiError

ChatMessage = dict[str, Any]
Item = Mapping[str, Any]
APPROVED = "approved"
"""Beside OpenAI's fields of a chat message: it is the client's word on a call of an MCP tool that waits for it."""
MCP_CALL = "mcp_"
"""What the ids of calls of MCP tools begin with."""
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "mcp_approval_response": "mcpr",
}


def _approval_id(given: str) -> str:
    """As ours are, and those of OpenAI: it is a key of a table."""
    if not re.fullmatch(r"[!-~]{1,80}", given):
        raise ValueError("The id of an approval request has 1 to 80 visible ASCII characters")
    return given


ApprovalId = Annotated[str, AfterValidator(_approval_id)]


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


class FunctionCallItem(BaseModel):
    """A call that the model made."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class FunctionOutputItem(BaseModel):
    """What the client's function returned."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[TextPart]


class ApprovalRequestItem(BaseModel):
    """A call of an MCP tool that waits for the client's word; its id is what the word names."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["mcp_approval_request"]
    id: ApprovalId
    server_label: str
    name: str
    arguments: str


class ApprovalResponseItem(BaseModel):
    """The client's word."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["mcp_approval_response"]
    approval_request_id: ApprovalId
    approve: bool = Field(strict=True)
    reason: str | None = None


TraceKind = Literal["file_search_call", "mcp_call", "mcp_list_tools", "reasoning"]


class TraceItem(BaseModel):
    """What our own answers hold beside their text; clients send it back with the rest, and models read the calls."""

    model_config = ConfigDict(extra="allow")

    type: TraceKind


_KINDS = ("message", "function_call", "function_call_output", "mcp_approval_request", "mcp_approval_response")


def _kind(item: Any) -> str | None:
    """None for what there is none of, a type that is no text among it."""
    kind = item.get("type", "message") if isinstance(item, Mapping) else getattr(item, "type", "message")
    if kind in get_args(TraceKind):
        return "trace"
    return kind if kind in _KINDS else None


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionOutputItem, Tag("function_call_output")]
    | Annotated[ApprovalRequestItem, Tag("mcp_approval_request")]
    | Annotated[ApprovalResponseItem, Tag("mcp_approval_response")]
    | Annotated[TraceItem, Tag("trace")],
    Discriminator(
        _kind,
        custom_error_type="item_type",
        custom_error_message=f"`type` must be one of {', '.join((*_KINDS, *get_args(TraceKind)))}",
    ),
    Field(),
]


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


def kept_items(items: str | Sequence[InputItem]) -> list[Item]:
    """What a client sent, as items are kept and listed: each with an id, texts in parts.

    Raises:
        ApiError: 400 for two of one id.
    """
    if isinstance(items, str):
        items = [MessageItem(role="user", content=items)]
    kept = [_kept(item) for item in items]
    ids = set()
    for item in kept:
        if item["id"] in ids:
            message = f"Two items have the id {item['id']!r}; leave one out."
            raise ApiError(400, message, param="input", code="duplicate_item")
        ids.add(item["id"])
    return kept


def _kept(item: InputItem) -> Item:
    if isinstance(item, ApprovalRequestItem):
        return item.model_dump(mode="json")
    kept = {**item.model_dump(mode="json"), "id": f"{_PREFIXES.get(item.type, 'item')}_{secrets.token_hex(12)}"}
    if not isinstance(item, TraceItem | ApprovalResponseItem):
        kept["status"] = "completed"
    if isinstance(item, MessageItem):
        kind = "output_text" if item.role == "assistant" else "input_text"
        extra: dict[str, Any] = {"annotations": []} if kind == "output_text" else {}
        kept["content"] = [{"type": kind, "text": text, **extra} for text in _texts(item.content)]
    return kept


def _texts(content: str | list[TextPart]) -> list[str]:
    return [content] if isinstance(content, str) else [part.text for part in content]


def chat_messages(items: Iterable[Item]) -> list[ChatMessage]:
    """Kept items, and those of our own responses, as the chat that models read; the client's words on calls that were
    not made yet bear the mark `APPROVED`."""
    listed = list(items)
    made = {item.get("approval_request_id") for item in listed if item["type"] == "mcp_call"}
    messages = [(item, message) for item in listed for message in _said(item)]
    return [
        message | {APPROVED: item["approve"]} if _is_word(item) and item["approval_request_id"] not in made else message
        for item, message in messages
    ]


def has_read_mcp(messages: Iterable[ChatMessage]) -> bool:
    """Whether a model that reads these messages reads what an MCP tool told."""
    return any(each["role"] == "tool" and each["tool_call_id"].startswith(MCP_CALL) for each in messages)


def _is_word(item: Item) -> bool:
    return bool(item["type"] == "mcp_approval_response")


def _said(item: Item) -> list[ChatMessage]:
    match item:
        case {"type": "message", "role": role, "content": content}:
            texts = [part["text"] for part in content if part["type"] in {"input_text", "output_text"}]
            return [{"role": "system" if role == "developer" else role, "content": "".join(texts)}]
        case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
            return [called(call_id, name, arguments)]
        case {"type": "function_call_output", "call_id": call_id, "output": output}:
            text = output if isinstance(output, str) else "".join(part["text"] for part in output)
            return [{"role": "tool", "tool_call_id": call_id, "content": text}]
        case {"type": "mcp_approval_request", "id": request, "server_label": label, "name": name, "arguments": given}:
            return [called(request, f"{label}__{name}", given)]
        case {"type": "mcp_approval_response", "approval_request_id": request, "approve": approve}:
            word = "Approved: the call follows." if approve else f"The user denied the call. {item.get('reason') or ''}"
            return [{"role": "tool", "tool_call_id": request, "content": word.strip()}]
        case {"type": "mcp_call", "id": str(call_id), "server_label": str(label), "name": str(name)}:
            call_id = call_id if call_id.startswith(MCP_CALL) else f"{MCP_CALL}{call_id}"
            told = item.get("output") if item.get("output") is not None else json.dumps(item.get("error"))
            call = called(call_id, f"{label}__{name}", str(item.get("arguments") or "{}"))
            return [call, {"role": "tool", "tool_call_id": call_id, "content": as_data(str(told))}]
        case _:
            return []
