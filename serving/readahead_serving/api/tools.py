"""Tools in a request: what may be called, what must be, and the grammar that holds a completion to it.

Calls are written as the Hermes and Qwen families were trained to write them: a JSON object between `<tool_call>` tags.
Forced calls follow a grammar from the first token on. Free completions are held to it from `<tool_call>` on, so that
arguments always satisfy the tool's schema, whoever asked for the call.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from readahead_serving.api.fields import RequestModel, Text
from readahead_serving.backends.structures import StructureChecks
from readahead_serving.engine.request import SamplingParams
from readahead_serving.errors import RequestRefused

MAX_TOOLS = 128
MAX_PARALLEL_CALLS = 8
"""Calls that one completion may make at most: a small model that is forced to call would go on for ever."""
CALL_OPENS, CALL_CLOSES = "<tool_call>", "</tool_call>"
ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class ToolFunction(RequestModel):
    """A function that the model may call."""

    name: ToolName
    description: Text = ""
    parameters: dict[str, Any] | None = None

    @field_validator("parameters")
    @classmethod
    def _is_an_object(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and value.get("type", "object") != "object":
            raise ValueError(f"parameters must be a schema of type object, not {value['type']!r}")
        return value

    @property
    def schema_text(self) -> str:
        """The arguments' JSON schema. `x-guidance` asks llguidance for compact JSON."""
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        given = {"type": "object", **self.parameters} if self.parameters else schema
        return json.dumps({**given, "x-guidance": {"whitespace_flexible": False}})


class Tool(RequestModel):
    type: str = "function"
    function: ToolFunction

    @field_validator("type")
    @classmethod
    def _is_a_function(cls, value: str) -> str:
        if value != "function":
            raise PydanticCustomError(
                "unsupported_parameter", "only function tools are supported, not {t}", {"t": value}
            )
        return value

    def plain(self) -> dict[str, Any]:
        """The tool as chat templates take it."""
        function: dict[str, Any] = {"name": self.function.name, "description": self.function.description}
        return {"type": "function", "function": {**function, "parameters": self.function.parameters or {}}}


class NamedFunction(RequestModel):
    name: str


class NamedTool(RequestModel):
    """The one tool that must be called."""

    type: Literal["function"] = "function"
    function: NamedFunction


def _no_tools(value: Any) -> Any:
    return value or None


Tools = Annotated[Annotated[list[Tool], Field(max_length=MAX_TOOLS)] | None, BeforeValidator(_no_tools)]
ToolChoice = Literal["none", "auto", "required"] | NamedTool


class ToolUse:
    """Which tools a completion may and must call.

    Args:
        tools: Those that may be called: none, if the request says "none".
        forced: Whether there must be a call.
        parallel: Whether there may be several.
    """

    def __init__(self, tools: Sequence[Tool], *, forced: bool, parallel: bool) -> None:
        self.tools = tools
        self._forced = forced
        self._parallel = parallel

    async def check(self, structures: StructureChecks) -> None:
        """Refuses parameters that can't be enforced.

        Raises:
            RequestRefused: Naming the tool.
        """
        for index, tool in enumerate(self.tools):
            try:
                await structures.check(SamplingParams(max_tokens=1, json_schema=tool.function.schema_text))
            except RequestRefused as error:
                where = f"tools[{index}].function.parameters"
                message = f"{where} of {tool.function.name}: {error.message}"
                raise RequestRefused(message, param=where, code="invalid_tool_parameters") from error

    def grammar(self, answer_schema: str | None) -> str:
        """The completion's grammar, in llguidance's Lark dialect.

        Args:
            answer_schema: The JSON schema of the answer, where there is no call and one is asked for.
        """
        names = [f"tool_{index}" for index in range(len(self.tools))]
        more = f' ("\\n" call){{0,{MAX_PARALLEL_CALLS - 1}}}' if self._parallel else ""
        rules = ["%llguidance {}", *self._start(more, answer_schema)]
        rules.append(rf'body: "\n" ({" | ".join(names)}) "\n{CALL_CLOSES}"')
        for name, tool in zip(names, self.tools, strict=True):
            head = json.dumps(f'{{"name": "{tool.function.name}", "arguments": ')
            rules.append(f'{name}: {head} %json {tool.function.schema_text} "}}"')
        return "\n".join(rules) + "\n"

    def _start(self, more: str, answer_schema: str | None) -> list[str]:
        call = f'call: "{CALL_OPENS}" body'
        if self._forced:
            return [f"start: call{more}", call]
        if answer_schema is not None:
            compact = {**json.loads(answer_schema), "x-guidance": {"whitespace_flexible": False}}
            return [f"start: call{more} | answer", f"answer: %json {json.dumps(compact)}", call]
        # a lazy lexeme ends as soon as it can: the first tag ends the free text, and nothing but a call may follow
        calls = f"call{{0,{MAX_PARALLEL_CALLS}}} rest" if self._parallel else "call | rest"
        return [
            f"start: {calls}",
            "rest: TEXT",
            r"TEXT: /(.|\n)*/",
            f'opens[lazy]: TEXT "{CALL_OPENS}"',
            "call: opens body",
        ]
