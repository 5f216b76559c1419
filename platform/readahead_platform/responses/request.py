"""The body of POST /v1/responses. What we cannot honour is refused by name, never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from readahead_agents.profile import UserProfile
from readahead_platform.api.attribute_filters import Filter
from readahead_platform.api.models import KB_PREFIX
from readahead_platform.api.vector_store_search import RankingOptions
from readahead_platform.errors import ApiError
from readahead_platform.responses.items import InputItem
from readahead_platform.responses.nesting import BoundedBody
from readahead_platform.routing.route import RequestedRoute

MAX_ITEMS = 1000
DEFAULT_TOOL_CALLS = 8
MAX_CHARS = 1 << 20
"""Of what was said: it is kept with each response."""
MAX_INSTRUCTIONS_CHARS = 64 << 10
"""They are told again in every event that shows the response."""


class FileSearchTool(BaseModel):
    """Answers from a knowledge base; a vector store is one."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["file_search"]
    vector_store_ids: list[str] = Field(min_length=1, max_length=16)
    """One: an answer is written from one knowledge base."""
    max_num_results: int | None = Field(default=None, ge=1, le=50)
    filters: Filter | None = None
    ranking_options: RankingOptions = RankingOptions()

    @property
    def selects(self) -> bool:
        """Whether it is to search a part of the store only."""
        return self.filters is not None or self.ranking_options.score_threshold is not None


class FunctionTool(BaseModel):
    """A function that the client calls."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["function"]
    name: str = Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def for_chat(self) -> dict[str, Any]:
        """As chat completions have it."""
        function = {"name": self.name, "parameters": self.parameters or {"type": "object", "properties": {}}}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": function}


class ToolFilter(BaseModel):
    """Some tools of a server: those that fit all that is given."""

    model_config = ConfigDict(extra="forbid")

    tool_names: list[str] | None = None
    read_only: bool | None = None

    def fits(self, name: str, *, read_only: bool) -> bool:
        return (self.tool_names is None or name in self.tool_names) and self.read_only in (None, read_only)


class ApprovalFilter(BaseModel):
    """Which tools wait for approval; those named in neither do."""

    model_config = ConfigDict(extra="forbid")

    always: ToolFilter | None = None
    never: ToolFilter | None = None


class McpTool(BaseModel):
    """Tools of an MCP server that the operator configured, or of our own knowledge server."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["mcp"]
    server_label: str = Field(min_length=1, max_length=64)
    server_url: str | None = None
    allowed_tools: list[str] | None = None
    require_approval: Literal["always", "never"] | ApprovalFilter | None = None
    """Without it, or with `never`, tools that are not marked read-only are there only when the operator approved them.
    Else they are there, and each call of them waits for approval, as do those that are named here."""
    headers: None = None
    authorization: None = None
    connector_id: None = None

    @property
    def asks(self) -> bool:
        """Whether the client may be asked for approval."""
        return self.require_approval not in (None, "never")

    def must_ask(self, name: str, *, read_only: bool) -> bool:
        """Whether a call of a tool waits for approval that the operator lets be called without."""
        wanted = self.require_approval
        if not isinstance(wanted, ApprovalFilter):
            return wanted == "always"
        if wanted.always is not None and wanted.always.fits(name, read_only=read_only):
            return True
        return wanted.never is None or not wanted.never.fits(name, read_only=read_only)


Tool = Annotated[FileSearchTool | FunctionTool | McpTool, Field(discriminator="type")]


class TextFormat(BaseModel):
    """As in OpenAI's `text.format`."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str = "answer"
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None

    def for_chat(self) -> dict[str, Any] | None:
        """As chat completions have it; None for plain text."""
        match self.type:
            case "text":
                return None
            case "json_object":
                return {"type": "json_object"}
            case "json_schema":
                described = {"name": self.name, "schema": self.schema_, "strict": self.strict}
                return {"type": "json_schema", "json_schema": {k: v for k, v in described.items() if v is not None}}


class TextOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    format: TextFormat = TextFormat()


class ReadaheadOptions(BaseModel):
    """Our own field; a misspelt key in it is refused."""

    model_config = ConfigDict(extra="forbid")

    route: RequestedRoute = "auto"
    profile: UserProfile | None = None


class ConversationRef(BaseModel):
    """One of /v1/conversations."""

    model_config = ConfigDict(extra="ignore")

    id: str = Field(min_length=1, max_length=64)


def _as_ref(conversation: Any) -> Any:
    return {"id": conversation} if isinstance(conversation, str) else conversation


Input = Annotated[
    Annotated[str, Field(max_length=MAX_CHARS), Tag("str")] | Annotated[list[InputItem], Tag("list[item]")],
    Discriminator(lambda given: "str" if isinstance(given, str) else "list[item]"),
]
"""Told apart first, so that an error names the item at fault."""


class ResponseRequest(BoundedBody):
    """What is asked."""

    model: str = Field(min_length=1)
    input: Input
    instructions: str | None = Field(default=None, max_length=MAX_INSTRUCTIONS_CHARS)
    previous_response_id: str | None = None
    tools: list[Tool] = Field(default=[], max_length=64)
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: int | None = Field(default=None, ge=1)
    max_tool_calls: int | None = Field(default=None, ge=1, le=64)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    text: TextOptions = TextOptions()
    truncation: Literal["auto", "disabled"] = "disabled"
    stream: bool = Field(default=False, strict=True)
    background: bool = Field(default=False, strict=True)
    store: bool = Field(default=True, strict=True)
    include: list[str] = Field(default=[], max_length=16)
    metadata: dict[str, str] = Field(default={}, max_length=16)
    conversation: Annotated[ConversationRef | None, BeforeValidator(_as_ref)] = None
    """What was said before, to which this turn is added once it is answered."""
    prompt: None = None
    top_logprobs: None = None
    readahead: ReadaheadOptions = ReadaheadOptions()

    @model_validator(mode="before")
    @classmethod
    def _null_is_the_default(cls, values: Any) -> Any:
        """SDKs send null for what was left out."""
        if not isinstance(values, dict):
            return values
        return {name: value for name, value in values.items() if value is not None}

    @model_validator(mode="after")
    def _fits_together(self) -> ResponseRequest:
        if isinstance(self.input, list) and len(self.input) > MAX_ITEMS:
            raise _refused("input", f"`input` has {len(self.input)} items; {MAX_ITEMS} are allowed.")
        if self.conversation is not None and self.previous_response_id is not None:
            message = "Give either `conversation` or `previous_response_id`: each says what was said before."
            raise ApiError(400, message, param="previous_response_id", code="mutually_exclusive_parameters")
        if self.background and not self.store:
            raise _refused("background", "`background` needs `store`: what is not kept cannot be fetched later.")
        if self.kb is None:
            return self
        self._searches_one_store()
        if self.text.format.type != "text":
            raise _refused("text.format", "An answer from documents is text; ask a plain model for JSON.")
        return self

    def _searches_one_store(self) -> None:
        beside = [tool for tool in self.tools if tool is not self.file_search]
        if self.model.startswith(KB_PREFIX) and self.file_search is not None:
            message = f"The model {self.model!r} names what is searched already; leave `file_search` out."
            raise _refused("tools", message)
        if beside:
            raise _refused("tools", _answers_alone(beside))
        search = self.file_search
        if search is None:
            return
        if len(search.vector_store_ids) > 1:
            message = f"An answer is written from one vector store; {len(search.vector_store_ids)} are named."
            raise _refused("tools[0].vector_store_ids", message)
        if search.selects and self.readahead.route == "cag":
            message = (
                "The route 'cag' reads the whole store; leave `filters` and `score_threshold` out, or ask for auto."
            )
            raise _refused("readahead.route", message)

    @property
    def file_search(self) -> FileSearchTool | None:
        return next((tool for tool in self.tools if isinstance(tool, FileSearchTool)), None)

    @property
    def kb(self) -> str | None:
        """The knowledge base that answers: the model's own, or the one that `file_search` names."""
        if self.model.startswith(KB_PREFIX):
            return self.model.removeprefix(KB_PREFIX)
        return self.file_search.vector_store_ids[0] if self.file_search is not None else None

    @property
    def call_limit(self) -> int:
        """Calls of MCP tools, those that the client approved among them."""
        return self.max_tool_calls or DEFAULT_TOOL_CALLS

    @property
    def top_k(self) -> int | None:
        return self.file_search.max_num_results if self.file_search is not None else None


def _answers_alone(beside: Sequence[Tool]) -> str:
    names = [tool.server_label if isinstance(tool, McpTool) else getattr(tool, "name", tool.type) for tool in beside]
    return (
        f"A knowledge base answers alone: leave out {', '.join(map(repr, names))}, or ask the plain model with "
        '{"type": "mcp", "server_label": "readahead"} in the place of `file_search`: it searches the same documents '
        "beside other tools."
    )


def _refused(param: str, message: str) -> ApiError:
    return ApiError(400, message, param=param, code="unsupported_value")
