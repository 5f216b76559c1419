"""Tools as models read of them: what a server says of its own is data, and bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from readahead_agents.answering.passages import INDENT, as_data
from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.planning.plan_schema import NAME

MAX_DESCRIPTION_CHARS = 400
MAX_ARGUMENT_CHARS = 120
"""Of the description of one argument."""
MAX_CHOICE_CHARS = 80
MAX_SCHEMA_CHARS = 4000
"""Of the arguments of one tool as JSON, about 1,000 tokens."""
MAX_DEPTH = 12

_EXACT = frozenset(["type", "required", "enum", "const", "$ref"])
"""What calls must keep to letter for letter."""
_LIMITS = frozenset(f"{bound}{what}" for bound in ("min", "max") for what in ("imum", "Length", "Items", "Properties"))
_VALUES = _LIMITS | {
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "uniqueItems",
    "pattern",
    "format",
    "default",
}
"""Without one of these a tool takes no less: it is left out where it says too much."""
_SCHEMAS = frozenset(["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"])
_LISTS = frozenset(["anyOf", "oneOf", "allOf", "prefixItems"])
_MAPS = frozenset(["properties", "$defs", "definitions"])


def described(spec: ToolSpec) -> dict[str, Any] | None:
    """`description` and `parameters` of a tool, without titles, examples and whatever else checks no argument; None
    for one that cannot be described within bounds, or whose names and choices say more than names and choices do."""
    if not _is_fit(spec.input_schema):
        return None
    for argument_chars in (MAX_ARGUMENT_CHARS, 0):
        parameters = _schema(spec.input_schema, argument_chars)
        if len(json.dumps(parameters)) <= MAX_SCHEMA_CHARS:
            return {"description": _data(spec.description, MAX_DESCRIPTION_CHARS), "parameters": parameters}
    return None


def _data(text: str, max_chars: int) -> str:
    return as_data(" ".join(text.split())[:max_chars]).strip()


def _schema(schema: Any, argument_chars: int, depth: int = 0) -> Any:
    """A schema as it is enforced, its descriptions bounded; where it is nested too deep, anything goes."""
    if not isinstance(schema, Mapping):
        return schema if isinstance(schema, bool) else {}
    if depth > MAX_DEPTH:
        return {}
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _EXACT or (key in _VALUES and all(map(_is_plain, _texts(value)))):
            kept[key] = value
        elif key in _SCHEMAS:
            kept[key] = _schema(value, argument_chars, depth + 1)
        elif key in _LISTS and isinstance(value, list):
            kept[key] = [_schema(each, argument_chars, depth + 1) for each in value]
        elif key in _MAPS and isinstance(value, Mapping):
            kept[key] = {name: _schema(each, argument_chars, depth + 1) for name, each in value.items()}
    described = schema.get("description")
    if depth and argument_chars and isinstance(described, str):
        kept["description"] = _data(described, argument_chars)
    return kept


def _is_fit(schema: Any, depth: int = 0) -> bool:
    """Whether what stands in the prompt letter for letter is names and short choices."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return True
    maps = [schema[key] for key in _MAPS & schema.keys() if isinstance(schema[key], Mapping)]
    lists = [schema[key] for key in _LISTS & schema.keys() if isinstance(schema[key], list)]
    inner = [schema[key] for key in _SCHEMAS & schema.keys()]
    inner += [each for one in maps for each in one.values()] + [each for one in lists for each in one]
    exact = [text for key in _EXACT & schema.keys() for text in _texts(schema[key])]
    return (
        all(NAME.fullmatch(name) for one in maps for name in one)
        and all(map(_is_plain, exact))
        and all(_is_fit(each, depth + 1) for each in inner)
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield name
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _is_plain(text: str) -> bool:
    """Whether a text is short, of one line, and without what prompts give a meaning to."""
    return len(text) <= MAX_CHOICE_CHARS and as_data(text) == f"{INDENT}{text}"
