"""The body of a chat request."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from readahead_serving.api.fields import CompletionFields, Flag, RequestModel, Text, TopLogprobs, Unsupported, refusal
from readahead_serving.api.tool_prompt import ChatMessage
from readahead_serving.api.tools import NamedTool, Tool, ToolChoice, Tools, ToolUse

MAX_PIECES = 8192
"""Messages, parts of messages and tool calls of one request at most."""
_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


class TextPart(RequestModel):
    """A piece of a message. Only text is understood."""

    type: str
    text: Text = ""

    @field_validator("type")
    @classmethod
    def _is_text(cls, value: str) -> str:
        if value != "text":
            raise PydanticCustomError(
                "unsupported_parameter", "this model reads text parts only, not {kind}", {"kind": value}
            )
        return value


class CalledFunction(RequestModel):
    name: Text
    arguments: Text

    def plain(self) -> dict[str, Any]:
        """With the arguments as the object that chat templates expect; as text, where they are none."""
        try:
            arguments = json.loads(self.arguments)
        except (ValueError, RecursionError):
            arguments = self.arguments
        return {"name": self.name, "arguments": arguments}


class ToolCall(RequestModel):
    """A call that the assistant made earlier in the conversation."""

    id: Text
    function: CalledFunction


def _bounded(messages: Any) -> Any:
    """Refuses more pieces than a conversation has before each is looked at, which takes 30 microseconds."""
    if not isinstance(messages, list):
        return messages
    lists = (value for message in messages if isinstance(message, dict) for value in message.values())
    if len(messages) + sum(len(value) for value in lists if isinstance(value, list)) > MAX_PIECES:
        raise ValueError(f"a conversation has {MAX_PIECES} messages, parts and calls at most")
    return messages


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class Message(RequestModel):
    """A chat message; a string as content stands for one text part."""

    role: str
    content: Annotated[list[TextPart] | None, BeforeValidator(_as_parts)]
    tool_calls: list[ToolCall] | None = None
    tool_call_id: Text | None = None
    function_call: Unsupported = None

    @model_validator(mode="before")
    @classmethod
    def _calls_need_no_content(cls, message: Any) -> Any:
        calls = isinstance(message, dict) and message.get("tool_calls")
        return {"content": None, **message} if calls else message

    @field_validator("role")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in _ROLES:
            raise ValueError(f"role must be developer, system, user, assistant or tool, not {value!r}")
        return _ROLES[value]

    @model_validator(mode="after")
    def _is_whole(self) -> Message:
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only an assistant's message has tool_calls")
        if self.role == "tool" and not self.tool_call_id:
            raise ValueError("a tool's message needs tool_call_id, the id of the call that it answers")
        if self.content is None and not self.tool_calls:
            raise ValueError("content is null")
        return self

    def plain(self) -> ChatMessage:
        """The message as chat templates take it."""
        plain: ChatMessage = {"role": self.role, "content": "".join(part.text for part in self.content or ())}
        if self.tool_calls:
            plain["tool_calls"] = [{"type": "function", "function": c.function.plain()} for c in self.tool_calls]
        if self.tool_call_id:
            plain["tool_call_id"] = self.tool_call_id
        return plain


class ChatRequest(CompletionFields):
    """The body of a chat request."""

    messages: Annotated[list[Message], BeforeValidator(_bounded), Field(min_length=1)]
    max_completion_tokens: int | None = Field(default=None, ge=1)
    tools: Tools = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: Flag | None = None
    functions: Unsupported = None
    function_call: Unsupported = None
    logprobs: Flag | None = None
    top_logprobs: TopLogprobs | None = None
    audio: Unsupported = None
    web_search_options: Unsupported = None

    @model_validator(mode="after")
    def _likeliest_need_logprobs(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise refusal("top_logprobs", "it needs logprobs: true")
        return self

    @model_validator(mode="after")
    def _tools_can_be_used(self) -> ChatRequest:
        names = [tool.function.name for tool in self.tools or ()]
        if len(set(names)) < len(names):
            raise refusal("tools", "two of them have the same name")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in names:
            raise refusal("tool_choice", f"{self.tool_choice.function.name!r} is none of the tools")
        if self.tool_choice == "required" and not names:
            raise refusal("tool_choice", "'required' needs tools")
        if names and self.structured_outputs is not None:
            raise refusal("structured_outputs", "it excludes tools")
        return self

    @property
    def token_limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def wanted_logprobs(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    def tool_use(self) -> ToolUse | None:
        """Which tools the completion may call; None if it may call none."""
        if not self.tools or self.tool_choice == "none":
            return None
        forced = self.tool_choice not in (None, "auto")
        parallel = self.parallel_tool_calls is not False and not isinstance(self.tool_choice, NamedTool)
        return ToolUse(self._callable(self.tools), forced=forced, parallel=parallel)

    def structure(self) -> dict[str, str]:
        use = self.tool_use()
        return super().structure() if use is None else {"grammar": use.grammar(self.answer_schema)}

    def _callable(self, tools: list[Tool]) -> list[Tool]:
        if not isinstance(self.tool_choice, NamedTool):
            return tools
        return [tool for tool in tools if tool.function.name == self.tool_choice.function.name]
