"""What may be asked of `kb/<name>`. What we cannot honour is refused by name, never dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, field_validator, model_validator

from readahead_agents.answering.answer import AnswerOptions
from readahead_agents.llm.base import Message
from readahead_agents.profile import UserProfile
from readahead_platform.api.models import KB_PREFIX
from readahead_platform.errors import ApiError
from readahead_platform.routing.route import RequestedRoute

MAX_MESSAGES = 8192
MAX_STOPS = 4
_ROLES: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_OWN_TOOLS = "its answers come from its documents, and it has tools of its own"
_TEXT = "its answers are text with citations"
_SEVERAL = "an answer may be put together from several completions"
_WORDS = "an answer must be free to use its passages' own words"
_SAMPLING = "it samples by temperature, top_p and seed"
REFUSED: Mapping[str, str] = {
    "n": "each answer is one search and one run; ask once for each",
    "tools": _OWN_TOOLS,
    "tool_choice": _OWN_TOOLS,
    "functions": _OWN_TOOLS,
    "function_call": _OWN_TOOLS,
    "web_search_options": _OWN_TOOLS,
    "response_format": _TEXT,
    "structured_outputs": _TEXT,
    "modalities": _TEXT,
    "audio": _TEXT,
    "logprobs": _SEVERAL,
    "top_logprobs": _SEVERAL,
    "presence_penalty": _WORDS,
    "frequency_penalty": _WORDS,
    "repetition_penalty": _WORDS,
    "logit_bias": _WORDS,
    "top_k": f"{_SAMPLING}; readahead.top_k is the number of passages to search for",
    "min_p": _SAMPLING,
    "ignore_eos": _SAMPLING,
}
"""Why each is refused. Fields that change no answer (user, store, metadata, service_tier, …) are taken."""
_NO_EFFECT: tuple[Any, ...] = (None, False, 0, "none", "auto", [], {})
_NO_EFFECT_OF: Mapping[str, tuple[Any, ...]] = {
    "n": (None, 1),
    "top_k": (None, 0, -1),
    "repetition_penalty": (None, 1),
    "response_format": (None, {"type": "text"}),
    "modalities": (None, [], ["text"]),
}
"""Values that clients send although they ask for nothing by them."""


class TextPart(BaseModel):
    """The only kind of content part that documents can be asked with."""

    type: str
    text: str = ""

    @field_validator("type")
    @classmethod
    def _is_text(cls, value: str) -> str:
        if value != "text":
            raise ValueError(f"a knowledge base reads text parts only, not {value!r}")
        return value


def _as_parts(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class ChatMessage(BaseModel):
    """One turn, in any of OpenAI's spellings."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[list[TextPart] | None, BeforeValidator(_as_parts)] = None

    def to_message(self) -> Message:
        return Message(_ROLES[self.role], "".join(part.text for part in self.content or ()))


class StreamOptions(BaseModel):
    """OpenAI's."""

    model_config = ConfigDict(extra="ignore")

    include_usage: StrictBool | None = None


class ReadaheadOptions(BaseModel):
    """Our own field; a misspelt key in it is refused."""

    model_config = ConfigDict(extra="forbid")

    route: RequestedRoute = "auto"
    top_k: int | None = Field(default=None, ge=1, le=50)
    profile: UserProfile | None = None


def _as_list(stop: Any) -> Any:
    return [stop] if isinstance(stop, str) else stop


Stops = Annotated[
    list[Annotated[str, Field(min_length=1)]] | None, BeforeValidator(_as_list), Field(max_length=MAX_STOPS)
]


class KbChatRequest(BaseModel):
    """The body of a chat request on a knowledge base."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    model: str
    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: Stops = None
    timeout: float | None = Field(default=None, gt=0)
    """Seconds after which the answer is given up."""
    readahead: ReadaheadOptions | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_supported(cls, body: Any) -> Any:
        for name, reason in REFUSED.items():
            if body.get(name) not in _NO_EFFECT_OF.get(name, _NO_EFFECT):
                message = f"`{name}` is not supported for a knowledge base: {reason}. The plain model may take it."
                raise ApiError(400, message, param=name, code="unsupported_value")
        return body

    @property
    def kb(self) -> str:
        return self.model.removeprefix(KB_PREFIX)

    @property
    def route(self) -> RequestedRoute:
        return self.readahead.route if self.readahead else "auto"

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def to_messages(self) -> Sequence[Message]:
        return [message.to_message() for message in self.messages]

    def to_options(self) -> AnswerOptions:
        return AnswerOptions(
            max_tokens=self.max_completion_tokens or self.max_tokens,
            temperature=self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            seed=self.seed,
            stop=tuple(self.stop or ()),
            top_k=self.readahead.top_k if self.readahead else None,
            profile=self.readahead.profile if self.readahead else None,
        )
