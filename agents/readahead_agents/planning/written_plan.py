"""A plan as a model wrote it: whole, or cut off at the limit of its tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from readahead_agents.errors import PlanInvalid
from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.planning.plan import Plan, parse_plan

_STEPS = re.compile(r'"steps"\s*:\s*\[\s*')
_BETWEEN = re.compile(r"\s*,?\s*")


def read_plan(text: str, tools: Sequence[ToolSpec]) -> Plan:
    """The plan; of one that was cut off, the steps that are whole, which says so.

    Raises:
        PlanInvalid: When it holds no step that could be used.
    """
    try:
        return parse_plan(json.loads(text), tools)
    except json.JSONDecodeError as error:
        steps = list(_whole_steps(text))
        if not steps:
            raise PlanInvalid(f"no step of it is whole: {error}") from error
        cut = f"The model's plan was cut off: the {len(steps)} steps that were whole are used."
        return replace(parse_plan({"steps": steps}, tools), repairs=(cut,))


def _whole_steps(text: str) -> Iterator[object]:
    begin = _STEPS.search(text)
    place = begin.end() if begin else len(text)
    while place < len(text):
        try:
            step, end = json.JSONDecoder().raw_decode(text, place)
        except json.JSONDecodeError:
            return
        yield step
        behind = _BETWEEN.match(text, end)
        assert behind is not None, "it matches the empty text too"
        place = behind.end()
