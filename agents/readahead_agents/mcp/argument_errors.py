"""What is wrong with a tool's arguments, in words that a caller can act on."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

MAX_TOLD = 3
"""Arguments that are told of at once."""


def told(tool: str, arguments: Sequence[str], error: ValidationError) -> str:
    """One line: each wrong argument by its name, and all that the tool takes; without the values, which may be long."""
    wrong = list(dict.fromkeys(f"`{_name(each['loc'])}`: {_lower(each['msg'])}" for each in error.errors()))
    more = f"; and {len(wrong) - MAX_TOLD} more" if len(wrong) > MAX_TOLD else ""
    takes = ", ".join(f"`{name}`" for name in arguments)
    return f"{tool} can't take these arguments: {'; '.join(wrong[:MAX_TOLD])}{more}. It takes {takes}."


def _name(location: Sequence[str | int]) -> str:
    return ".".join(map(str, location)) or "arguments"


def _lower(message: str) -> str:
    message = message.rstrip(".")
    return message[:1].lower() + message[1:]
