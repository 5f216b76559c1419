"""The request fields that chat and text completions share, and how they become sampling parameters."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from readahead_serving.engine.request import SamplingParams
from readahead_serving.engine.validation import MAX_BIASED_TOKENS, MAX_TOP_LOGPROBS
from readahead_serving.errors import RequestRefused

MAX_CHOICES = 16
MAX_STOPS = 4
MAX_CHOICE = 1000
_SMALLEST_TOP_P = 1e-6
TopLogprobs = Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)]


def _encodable(text: str) -> str:
    """JSON can spell half a surrogate pair, which no tokenizer and no UTF-8 can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("the text holds half of a surrogate pair; send whole characters") from error
    return text


def refusal(param: str, problem: str) -> RequestRefused:
    """For validators of a whole body, whose own errors pydantic would give no field."""
    return RequestRefused(f"{param}: {problem}.", param=param, code="invalid_value")


def _unsupported(value: Any) -> Any:
    if value not in (None, False, 0, "none", [], {}):
        raise PydanticCustomError("unsupported_parameter", "this server doesn't support it; leave it out")
    return value


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Flag = Annotated[bool, Field(strict=True)]
"""True or false and nothing that could be read as either, such as "yes" and 1."""
Text = Annotated[str, AfterValidator(_encodable)]
Unsupported = Annotated[Any, AfterValidator(_unsupported)]
"""A field whose meaning we can't honour: neutral values pass, others are refused instead of being ignored."""
Stops = Annotated[list[Annotated[Text, Field(min_length=1)]], BeforeValidator(_as_list), Field(max_length=MAX_STOPS)]


class RequestModel(BaseModel):
    """Root of the request bodies: unknown fields are ignored, as OpenAI's clients of other versions need."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class StreamOptions(RequestModel):
    include_usage: Flag = False
    continuous_usage_stats: Flag = False
    """In chat, with `include_usage`: every chunk tells the usage so far, for clients that leave before the end; the
    name is vLLM's."""


class JsonSchemaFormat(RequestModel):
    name: str = ""
    json_schema: dict[str, Any] = Field(alias="schema")


class ResponseFormat(RequestModel):
    type: str
    json_schema: JsonSchemaFormat | None = None

    @model_validator(mode="after")
    def _known(self) -> ResponseFormat:
        if self.type not in ("text", "json_object", "json_schema"):
            raise ValueError(f"type must be text, json_object or json_schema, not {self.type!r}")
        if self.type == "json_schema" and self.json_schema is None:
            raise ValueError("type json_schema needs json_schema: {name, schema}")
        return self

    def schema_text(self) -> str | None:
        """The JSON schema that the completion must satisfy, as JSON text; None for free text."""
        if self.type == "text":
            return None
        schema = self.json_schema.json_schema if self.json_schema else {"type": "object"}
        return json.dumps(schema)


class StructuredOutputs(RequestModel):
    """What vLLM calls the same: a completion held to one of these."""

    json_schema: dict[str, Any] | None = Field(default=None, alias="json")
    regex: Text | None = None
    choice: list[Annotated[Text, Field(min_length=1)]] | None = Field(default=None, min_length=1, max_length=MAX_CHOICE)
    grammar: Text | None = None
    """In Lark, as llguidance reads it."""

    @model_validator(mode="after")
    def _exactly_one(self) -> StructuredOutputs:
        given = [name for name in ("json_schema", "regex", "choice", "grammar") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of json, regex, choice and grammar")
        return self

    def structure(self) -> dict[str, str]:
        """The same as a field of `SamplingParams`."""
        if self.json_schema is not None:
            return {"json_schema": json.dumps(self.json_schema)}
        if self.regex is not None:
            return {"regex": self.regex}
        if self.choice is not None:
            return {"grammar": f"start: {' | '.join(map(json.dumps, self.choice))}"}
        return {"grammar": self.grammar or ""}


LogitBias = Annotated[dict[int, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=MAX_BIASED_TOKENS)]


class CompletionFields(RequestModel):
    """What chat and text completions have in common."""

    model: str
    stream: Flag | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(default=None, ge=1, le=MAX_CHOICES)
    max_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_k: int | None = Field(default=None, ge=0, lt=2**31)
    min_p: float | None = Field(default=None, ge=0, le=1)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: Stops | None = None
    response_format: ResponseFormat | None = None
    ignore_eos: Flag | None = None
    priority: int = Field(default=0, ge=-100, le=100)
    """Lower goes first among the sender's own requests; above 0 it steps back behind everyone's."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds after which the request is given up, waiting or running."""
    logit_bias: LogitBias | None = None
    structured_outputs: StructuredOutputs | None = None

    @model_validator(mode="after")
    def _one_structure(self) -> Self:
        if self.structured_outputs is not None and self.answer_schema is not None:
            raise refusal("structured_outputs", "it excludes response_format")
        return self

    @property
    def answer_schema(self) -> str | None:
        """The JSON schema of the answer, as JSON text."""
        return self.response_format.schema_text() if self.response_format else None

    def structure(self) -> dict[str, str]:
        """What the completion must satisfy, as a field of `SamplingParams`."""
        if self.structured_outputs is not None:
            return self.structured_outputs.structure()
        schema = self.answer_schema
        return {} if schema is None else {"json_schema": schema}

    @property
    def wanted_logprobs(self) -> int | None:
        """As `SamplingParams.logprobs`."""
        return None

    @property
    def wants_prompt_logprobs(self) -> bool:
        """As `SamplingParams.prompt_logprobs`."""
        return False

    @property
    def choices(self) -> int:
        return self.n or 1

    @property
    def wants_usage_chunk(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def wants_running_usage(self) -> bool:
        return self.wants_usage_chunk and self.stream_options is not None and self.stream_options.continuous_usage_stats

    def deadline(self) -> float | None:
        """The Unix time at which `timeout` is over."""
        return None if self.timeout is None else time.time() + self.timeout

    def sampling(self, max_tokens: int, choice: int) -> SamplingParams:
        """The parameters of one choice; choices of one seeded request differ, but are the same each time."""
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else max(self.top_p, _SMALLEST_TOP_P),
            top_k=self.top_k or 0,
            min_p=self.min_p or 0.0,
            presence_penalty=self.presence_penalty or 0.0,
            frequency_penalty=self.frequency_penalty or 0.0,
            seed=None if self.seed is None else _wrap_int64(self.seed + choice),
            stop=tuple(self.stop or ()),
            ignore_eos=self.ignore_eos or False,
            logit_bias=tuple((self.logit_bias or {}).items()),
            logprobs=self.wanted_logprobs,
            prompt_logprobs=self.wants_prompt_logprobs,
            **self.structure(),
        )


def _wrap_int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63
