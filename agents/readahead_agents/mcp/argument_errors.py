"""What is wrong with a tool's arguments, in words that a caller can act on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import ValidationError

MAX_TOLD = 3
"""Arguments that are told of at once."""
MAX_NAME_CHARS = 40
"""Of an argument that a caller made up."""


def told(tool: str, arguments: Iterable[str], wrong: Sequence[str]) -> str:
    """One line: what is wrong, and all that the tool takes."""
    more = f"; and {len(wrong) - MAX_TOLD} more" if len(wrong) > MAX_TOLD else ""
    takes = ", ".join(f"`{name}`" for name in arguments)
    return f"{tool} can't take these arguments: {'; '.join(wrong[:MAX_TOLD])}{more}. It takes {takes}."


def of_validation(error: ValidationError) -> list[str]:
    """Each wrong argument by its name, without the values, which may be long."""
    return list(dict.fromkeys(f"`{_name(each['loc'])}`: {_lower(each['msg'])}" for each in error.errors()))


def of_names(given: Iterable[str], takes: Iterable[str], required: Iterable[str]) -> list[str]:
    """Those that the tool does not take, and those that it needs and that are not there."""
    names, known = list(given), set(takes)
    unknown = [f"`{name[:MAX_NAME_CHARS]}`: no such argument" for name in names if name not in known]
    return [*unknown, *(f"`{name}`: field required" for name in required if name not in names)]


def _name(location: Sequence[str | int]) -> str:
    return ".".join(map(str, location)) or "arguments"


def _lower(message: str) -> str:
    message = message.rstrip(".")
    return message[:1].lower() + message[1:]
