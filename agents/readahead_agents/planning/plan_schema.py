"""The JSON schema that plans are decoded under: made from the tools there are, with a bound on everything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any

from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.planning.plan import is_reference

MAX_TEXT = 120
MAX_ITEM_TEXT = 60
"""Of texts in lists, which name things."""
MAX_REASONING = 100
MAX_DEPENDENCIES = 3
MAX_ITEMS = 4
_SCALARS: dict[str, type | UnionType] = {"string": str, "integer": int, "number": int | float, "boolean": bool}
_TYPES = {**_SCALARS, "array": list}
# plain text of one line: escapes and control characters are where small models run astray
_TEXT_PATTERN = r"^[^\"\\\x00-\x1f\x7f]+$"


def plan_schema(tools: Sequence[ToolSpec], max_steps: int) -> dict[str, Any]:
    """A plan's schema: each step is one of the tools with its own arguments, literal but for results of earlier steps.

    A small model fills every array to `maxItems` and every string to `maxLength`, so all have small ones. Arguments
    that are neither scalars nor lists of texts are left out: only results of earlier steps fill them, through
    `depends_on`.
    """
    ids = [f"s{number}" for number in range(1, max_steps)]
    return _object(
        {
            "reasoning": {"type": "string", "minLength": 1, "maxLength": MAX_REASONING, "pattern": _TEXT_PATTERN},
            "steps": {
                "type": "array",
                "minItems": 1,
                "maxItems": max_steps,
                "items": {"anyOf": [_step_schema(tool, ids) for tool in tools]},
            },
        }
    )


NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What names of tools and arguments may be made of: they stand in prompts, and a server could put anything there."""


def can_be_planned(tool: ToolSpec) -> bool:
    """Whether a plan can write out all that the tool needs, under names that say nothing but a name."""
    properties = tool.input_schema.get("properties", {})
    required = set(tool.input_schema.get("required", []))
    return all(map(NAME.fullmatch, [tool.name, *properties])) and required <= literal_arguments(tool).keys()


def fits(arguments: Mapping[str, Any], tool: ToolSpec) -> bool:
    """Whether a foreign tool takes the arguments: all that it needs, none that it does not know, each of its kind or,
    where that is a text, the result of another step."""
    known = literal_arguments(tool)
    if not set(tool.input_schema.get("required", [])) <= arguments.keys() <= known.keys():
        return False
    return all(
        _is_of_kind(value, known[name]) or (is_reference(value) and takes_result(known[name]))
        for name, value in arguments.items()
    )


def fitting(arguments: Mapping[str, Any], tool: ToolSpec) -> dict[str, Any]:
    """The arguments without those that a plan may write out and that are not of their kind."""
    known = literal_arguments(tool)
    return {name: value for name, value in arguments.items() if name not in known or _is_of_kind(value, known[name])}


def _is_of_kind(value: object, schema: Mapping[str, Any]) -> bool:
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if choices is not None:
        return value in choices
    if not isinstance(value, _TYPES[schema["type"]]) or (isinstance(value, bool) and schema["type"] != "boolean"):
        return False
    if isinstance(value, list):
        least, most = schema["minItems"], schema["maxItems"]
        return least <= len(value) <= most and all(_is_of_kind(item, schema["items"]) for item in value)
    if not isinstance(value, int | float):
        return True
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    return bool(low <= value <= high)


def literal_arguments(tool: ToolSpec) -> dict[str, dict[str, Any]]:
    """The tool's arguments that a plan may write out, with bounded schemas; required ones first."""
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    required = tool.input_schema.get("required", [])
    names = sorted(properties, key=lambda name: name not in required)
    bounded = {name: _bounded(properties[name]) for name in names}
    return {name: schema for name, schema in bounded.items() if schema is not None}


_IN_WORDS = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}


def in_words(schema: Mapping[str, Any]) -> str:
    """What an argument that a plan may write out has to be."""
    if "enum" in schema or "const" in schema:
        return f"one of {', '.join(map(str, schema.get('enum', [schema.get('const')])))}"
    if schema["type"] == "array":
        return f"a list of {schema['minItems']} to {schema['maxItems']} texts"
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"{_IN_WORDS[schema['type']]}{'' if low is None or high is None else f' from {low} to {high}'}"


def _step_schema(tool: ToolSpec, ids: Sequence[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"tool": {"const": tool.name}}
    required = set(tool.input_schema.get("required", []))
    arguments = literal_arguments(tool)
    if tool.server:
        arguments = {name: _or_result(schema, ids) for name, schema in arguments.items()}
    fields["arguments"] = _object(arguments, required=[name for name in arguments if name in required])
    if ids:
        items = {"enum": list(ids)}
        fields["depends_on"] = {"type": "array", "items": items, "maxItems": MAX_DEPENDENCIES}
    return _object(fields)


def takes_result(schema: Mapping[str, Any]) -> bool:
    """Whether an argument of a foreign tool may be an earlier step's text; ours get results through `depends_on`."""
    return schema.get("type") == "string"


def _or_result(schema: dict[str, Any], ids: Sequence[str]) -> dict[str, Any]:
    return {"anyOf": [schema, _object({"from": {"enum": list(ids)}})]} if ids and takes_result(schema) else schema


def _bounded(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a scalar, a choice or a list of texts, with a bound; None for anything else."""
    if "enum" in schema or "const" in schema:
        return {key: schema[key] for key in ("enum", "const") if key in schema}
    if "anyOf" in schema:  # an optional scalar: leaving it out says null
        return next((bounded for option in schema["anyOf"] if (bounded := _bounded(option)) is not None), None)
    kind = schema.get("type")
    if kind == "string":
        longest = min(schema.get("maxLength", MAX_TEXT), MAX_TEXT)
        return {"type": "string", "minLength": 1, "maxLength": longest, "pattern": _TEXT_PATTERN}
    if kind == "array" and (item := _bounded(schema.get("items", {}))) is not None and item.get("type") == "string":
        most = min(schema.get("maxItems", MAX_ITEMS), MAX_ITEMS)
        if "maxLength" in item:
            item = {**item, "maxLength": min(item["maxLength"], MAX_ITEM_TEXT)}
        return {"type": "array", "items": item, "minItems": min(schema.get("minItems", 0), most), "maxItems": most}
    if kind in _SCALARS:
        return {key: schema[key] for key in ("type", "minimum", "maximum") if key in schema}
    return None


def _object(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    names = list(properties) if required is None else list(required)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
