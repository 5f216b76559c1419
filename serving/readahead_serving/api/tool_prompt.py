"""Conversations with tools, for chat templates that know them and for those that don't."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from readahead_serving.api.tools import CALL_CLOSES, CALL_OPENS

_INTRODUCTION = (
    "You may call functions to help with the request. They are listed within <tools></tools>:\n<tools>\n{tools}\n"
    "</tools>\nTo call one, write its name and arguments as JSON within tags:\n"
    f'{CALL_OPENS}\n{{{{"name": "function-name", "arguments": {{{{}}}}}}}}\n{CALL_CLOSES}'
)

_TAG = re.compile(r"<(?=/?tool)")

ChatMessage = dict[str, Any]


def spelled_out(messages: Sequence[ChatMessage], tools: Sequence[dict[str, Any]]) -> list[ChatMessage]:
    """The same conversation in plain messages, for a template without tools.

    Tools are listed in the system message, calls become text of the assistant and results text of the user.
    """
    plain: list[ChatMessage] = []
    previous = None
    for message in messages:
        role = message["role"]
        if role == "tool" and previous == "tool":
            plain[-1]["content"] += "\n" + _result(message)
        elif role == "tool":
            plain.append({"role": "user", "content": _result(message)})
        else:
            plain.append({"role": role, "content": _with_calls(message)})
        previous = role
    return _introduced(plain, tools) if tools else plain


def _introduced(messages: list[ChatMessage], tools: Sequence[dict[str, Any]]) -> list[ChatMessage]:
    listed = "\n".join(_held(json.dumps(tool, ensure_ascii=False)) for tool in tools)
    text = _INTRODUCTION.format(tools=listed)
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{messages[0]['content']}\n\n{text}"}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _with_calls(message: ChatMessage) -> str:
    calls = (
        f"{CALL_OPENS}\n{json.dumps(call['function'], ensure_ascii=False)}\n{CALL_CLOSES}"
        for call in message.get("tool_calls", ())
    )
    return "\n".join(filter(None, (message["content"], *calls)))


def _result(message: ChatMessage) -> str:
    return f"<tool_response>\n{_held(message['content'])}\n</tool_response>"


def _held(text: str) -> str:
    """What tools and their results say, with our own tags in it taken apart: nothing in it ends what it stands in."""
    return _TAG.sub("< ", text)
