"""Calls of MCP tools that wait for the client's word between two responses, as OpenAI's approval items have it.

In a conversation of chat messages the request is a call of the model's, and the word its result, which bears a mark
beside OpenAI's fields while it is still to be done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from readahead_agents.mcp.external import SEPARATOR
from readahead_platform.errors import ApiError
from readahead_platform.responses.items import APPROVED, ChatMessage
from readahead_platform.responses.request import McpTool, ResponseRequest


def approved_calls(conversation: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """The calls that the client has approved: `id`, `name`, `arguments`.

    Raises:
        ApiError: 400 for a word on a call that nobody asked about, or that was decided before in the conversation.
    """
    asked = {call["id"]: call["function"] for message in conversation for call in message.get("tool_calls") or ()}
    answered = [message["tool_call_id"] for message in conversation if message["role"] == "tool"]
    words = decisions(conversation)
    for request in words:
        if request not in asked:
            raise _refused(request, "is not in the conversation")
        if answered.count(request) > 1:
            raise _refused(request, "was decided before")
    return [{"id": request, **asked[request]} for request, approve in words.items() if approve]


def decisions(conversation: Sequence[ChatMessage]) -> dict[str, bool]:
    """The client's words on calls that were not made yet: whether it approves."""
    return {message["tool_call_id"]: message[APPROVED] for message in conversation if APPROVED in message}


def check_may_be_made(calls: Sequence[Mapping[str, Any]], request: ResponseRequest) -> None:
    """Raises `ApiError`, 400, for approved calls that the response cannot make."""
    if len(calls) > request.call_limit:
        message = f"{len(calls)} approved calls are over `max_tool_calls`, {request.call_limit}; approve fewer at once."
        raise ApiError(400, message, param="max_tool_calls", code="too_many_tool_calls")
    labels = tuple(f"{tool.server_label}{SEPARATOR}" for tool in request.tools if isinstance(tool, McpTool))
    for call in calls:
        if not call["name"].startswith(labels):
            raise tool_is_missing(call["name"])


def tool_is_missing(name: str) -> ApiError:
    message = f"The approved tool {name!r} is not among the `tools` of this request."
    return ApiError(400, message, param="tools", code="unknown_mcp_tool")


def without_marks(conversation: Sequence[ChatMessage]) -> list[ChatMessage]:
    """As models read it."""
    return [{name: value for name, value in message.items() if name != APPROVED} for message in conversation]


def request_item(server_label: str, name: str, arguments: str, request_id: str) -> dict[str, Any]:
    """The item that asks."""
    kind = "mcp_approval_request"
    return {"id": request_id, "type": kind, "server_label": server_label, "name": name, "arguments": arguments}


def _refused(request: str, why: str) -> ApiError:
    message = f"The approval request {request!r} {why}."
    return ApiError(400, message, param="input", code="approval_request_not_found")
