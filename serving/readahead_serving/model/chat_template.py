"""Renders a conversation the way the model was trained on it: the model's own Jinja template, in a sandbox."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from readahead_serving.errors import ModelLoadError, RequestRefused


class ChatTemplate:
    """One compiled template.

    Args:
        source: Jinja text, untrusted.
        tokens: The special tokens that templates name, such as `bos_token`.

    Raises:
        ModelLoadError: The template does not compile.
    """

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        self.digest = hashlib.sha256(source.encode()).hexdigest()
        """Names the template in cache keys: another template, other tokens."""
        self._tokens = dict(tokens)
        self.knows_tools = "tools" in source and "<tool_call>" in source
        """Whether it lists tools, and writes calls as Hermes and Qwen do, the one way that is read back here."""
        try:
            self._template = _environment().from_string(source)
        except TemplateSyntaxError as error:
            raise ModelLoadError(f"The model's chat template does not compile ({error}).") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """The whole conversation as text, special tokens spelt out.

        Raises:
            RequestRefused: The template takes no such conversation.
        """
        try:
            return self._template.render(
                messages=messages,
                tools=list(tools) or None,
                add_generation_prompt=add_generation_prompt,
                **self._tokens,
            )
        except (TemplateError, TypeError, KeyError, ValueError, ArithmeticError, RecursionError) as error:
            raise RequestRefused(
                f"The model's chat template refuses these messages: {error}.", param="messages", code="invalid_messages"
            ) from error


def _environment() -> ImmutableSandboxedEnvironment:
    """What Hugging Face templates expect to find."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(value: object, indent: int | None = None) -> str:
    # Jinja's own filter escapes for HTML, which no model was trained on
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _raise(message: str) -> Any:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)
