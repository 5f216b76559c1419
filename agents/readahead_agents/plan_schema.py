"""The JSON schema that plans are decoded under: made from the tools there are, with a bound on everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from readahead_agents.mcp.toolset import ToolSpec

MAX_TEXT = 120
MAX_REASONING = 100
MAX_DEPENDENCIES = 3
_SCALARS = ("string", "integer", "number", "boolean")
# plain text of one line: escapes and control characters are where small models run astray
_TEXT_PATTERN = r"^[^\"\\\x00-\x1f\x7f]+$"


def plan_schema(tools: Sequence[ToolSpec], max_steps: int) -> dict[str, Any]:
    """A plan's schema: each step is one of the tools with its own literal arguments.

    A small model fills every array to `maxItems` and every string to `maxLength`, so all have small ones. Arguments
    that are not scalar are left out: only results of earlier steps fill them, through `depends_on`.
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


def literal_arguments(tool: ToolSpec) -> dict[str, dict[str, Any]]:
    """The tool's arguments that a plan may write out, with bounded schemas; required ones first."""
    properties: dict[str, Any] = tool.input_schema.get("properties", {})
    required = tool.input_schema.get("required", [])
    names = sorted(properties, key=lambda name: name not in required)
    bounded = {name: _bounded(properties[name]) for name in names}
    return {name: schema for name, schema in bounded.items() if schema is not None}


def _step_schema(tool: ToolSpec, ids: Sequence[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {"tool": {"const": tool.name}}
    required = set(tool.input_schema.get("required", []))
    arguments = literal_arguments(tool)
    fields["arguments"] = _object(arguments, required=[name for name in arguments if name in required])
    if ids:
        items = {"enum": list(ids)}
        fields["depends_on"] = {"type": "array", "items": items, "maxItems": MAX_DEPENDENCIES}
    return _object(fields)


def _bounded(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a scalar or a choice, with a bound; None for anything else."""
    if "enum" in schema or "const" in schema:
        return {key: schema[key] for key in ("enum", "const") if key in schema}
    if "anyOf" in schema:  # an optional scalar: leaving it out says null
        return next((bounded for option in schema["anyOf"] if (bounded := _bounded(option)) is not None), None)
    kind = schema.get("type")
    if kind == "string":
        longest = min(schema.get("maxLength", MAX_TEXT), MAX_TEXT)
        return {"type": "string", "minLength": 1, "maxLength": longest, "pattern": _TEXT_PATTERN}
    if kind in _SCALARS:
        return {key: schema[key] for key in ("type", "minimum", "maximum") if key in schema}
    return None


def _object(properties: dict[str, Any], required: Sequence[str] | None = None) -> dict[str, Any]:
    names = list(properties) if required is None else list(required)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
