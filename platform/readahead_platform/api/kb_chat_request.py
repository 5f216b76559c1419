"""What may be asked of `kb/<name>`. What we cannot honour is refused by name, never dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from readahead_agents.answer import AnswerOptions
from readahead_agents.llm import Message
from readahead_platform.api.models import KB_PREFIX
from readahead_platform.errors import ApiError
from readahead_platform.routing.route import RequestedRoute

_ROLES: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}


class TextPart(BaseModel):
    """The only kind of content part that documents can be asked with."""

    type: Literal["text"]
    text: str


class ChatMessage(BaseModel):
    """One turn, in any of OpenAI's spellings."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None

    def to_message(self) -> Message:
        parts = [TextPart(type="text", text=self.content)] if isinstance(self.content, str) else self.content or []
        return Message(_ROLES[self.role], "".join(part.text for part in parts))


class StreamOptions(BaseModel):
    """OpenAI's."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class ReadaheadOptions(BaseModel):
    """Our own field; a misspelt key in it is refused."""

    model_config = ConfigDict(extra="forbid")

    route: RequestedRoute = "auto"
    top_k: int | None = Field(default=None, ge=1, le=50)


class KbChatRequest(BaseModel):
    """The body of a chat request on a knowledge base."""

    model_config = ConfigDict(extra="ignore")

    model: str
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    tools: list[Any] | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    readahead: ReadaheadOptions = ReadaheadOptions()

    @model_validator(mode="after")
    def _refuse_what_is_not_supported(self) -> Self:
        unsupported = {
            "n": self.n not in {None, 1},
            "tools": bool(self.tools),
            "response_format": (self.response_format or {}).get("type", "text") != "text",
            "logprobs": bool(self.logprobs),
        }
        for name, is_asked in unsupported.items():
            if is_asked:
                message = f"`{name}` is not supported for a knowledge base; ask the plain model."
                raise ApiError(400, message, param=name, code="unsupported_value")
        return self

    @property
    def kb(self) -> str:
        return self.model.removeprefix(KB_PREFIX)

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def to_messages(self) -> Sequence[Message]:
        return [message.to_message() for message in self.messages]

    def to_options(self) -> AnswerOptions:
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return AnswerOptions(
            max_tokens=self.max_completion_tokens or self.max_tokens,
            temperature=self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            seed=self.seed,
            stop=tuple(stop),
            top_k=self.readahead.top_k,
        )
