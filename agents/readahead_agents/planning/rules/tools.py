"""Tools that a plan's steps may use: those there are, with what they need, for what was asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from readahead_agents.mcp.argument_errors import of_names, told
from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.named_places import page_asked
from readahead_agents.planning.action_names import COMPARE, GREP, READ
from readahead_agents.planning.plan import EARLIER, Step, is_reference
from readahead_agents.planning.plan_schema import fits, fitting, in_words, literal_arguments
from readahead_agents.planning.question_kind import compared_sides
from readahead_agents.planning.rules.places import text_asked
from readahead_agents.planning.rules.request import Request, Steps, is_own, singular

MAX_TOLD_NAME = 64
"""Characters of a name that somebody made up."""


def known_tools(steps: Steps, request: Request) -> tuple[Steps, str]:
    kept = tuple(step for step in steps if step.tool in request.tools)
    gone = sorted({step.tool[:MAX_TOLD_NAME] for step in steps} - request.tools.keys())
    return kept, f"Steps with tools that do not exist were dropped: {', '.join(gone)}." if gone else ""


def others_on_purpose(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Tools of other servers are used where the step is complete and has to do with the question: a small model picks
    any tool that it is shown."""
    asked = singular(request.question)
    kept = tuple(step for step in steps if is_own(step, request) or _on_purpose(step, request, asked))
    gone = sorted({step.tool for step in steps if step not in kept})
    return kept, f"Calls that do not fit the tool or the question were dropped: {', '.join(gone)}." if gone else ""


def _on_purpose(step: Step, request: Request, asked: frozenset[str]) -> bool:
    tool = request.tools[step.tool]
    values = json.dumps(list(step.arguments.values()), ensure_ascii=False, default=str)
    name = tool.name.removeprefix(tool.server).replace("_", " ")
    return fits(step.arguments, tool) and bool(singular(f"{name} {values}") & asked)


def complete_arguments(steps: Steps, request: Request) -> tuple[Steps, str]:
    """What a tool needs and the plan leaves out is what the question tells of it; arguments that no tool takes go."""
    mended = tuple(replace(step, arguments=_arguments(step, request)) for step in steps)
    changed = [step.tool for step, new in zip(steps, mended, strict=True) if step.arguments != new.arguments]
    return mended, f"Arguments were completed for {', '.join(dict.fromkeys(changed))}." if changed else ""


def with_what_they_need(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Steps that lack an argument which the question does not tell can't be called."""
    kept = tuple(step for step in steps if not is_own(step, request) or not _lacking(step, request))
    gone = sorted({step.tool for step in steps if step not in kept})
    return kept, f"Calls without an argument that they need were dropped: {', '.join(gone)}." if gone else ""


def why_not_callable(step: Step, request: Request) -> str:
    """Of a step as somebody wrote it: what it can't be called with or without, as far as the question does not
    tell it; empty where nothing is wrong."""
    if step.tool not in request.tools:
        return ""
    tool = request.tools[step.tool]
    if tool.server:
        return "" if fits(step.arguments, tool) else _of_another(tool)
    takes, kinds = tool.input_schema.get("properties", {}), literal_arguments(tool)
    fit = fitting(step.arguments, tool)
    unfit = [name for name, value in step.arguments.items() if name not in fit and not is_reference(value) and value]
    completed = replace(step, arguments=_arguments(step, request))
    needed = [name for name in _lacking(completed, request) if name not in unfit]
    unknown = of_names([*takes, *step.arguments], takes, ())
    wrong = [*unknown, *(f"`{name}`: should be {in_words(kinds[name])}" for name in unfit)]
    wrong += [f"`{name}`: needed, and the question does not tell it" for name in needed]
    return told(step.tool, [name for name in takes if name != EARLIER], wrong) if wrong else ""


def _of_another(tool: ToolSpec) -> str:
    """What another server's tool takes of a plan: nothing that it does not declare, so that no result goes astray."""
    kinds = literal_arguments(tool)
    needed = ", ".join(f"`{name}`" for name in tool.input_schema.get("required", []))
    told_kinds = "; ".join(f"`{name}`: {in_words(schema)}" for name, schema in kinds.items())
    return f"{tool.name} takes {told_kinds or 'nothing'}, and needs {needed or 'nothing'}."


def _arguments(step: Step, request: Request) -> dict[str, Any]:
    if not is_own(step, request):
        return step.arguments
    properties: dict[str, Any] = request.tools[step.tool].input_schema.get("properties", {})
    written = fitting(step.arguments, request.tools[step.tool])
    given = {name: value for name, value in written.items() if name in properties and value not in ("", None)}
    return {name: value for name in _required(step, request) if (value := _asked(step, name, request))} | given


def _asked(step: Step, name: str, request: Request) -> Any:
    """What the question tells of an argument; None where that is nothing."""
    told_by = _TOLD_BY.get((step.tool, name))
    if told_by is not None:
        return told_by(request.question)
    properties = request.tools[step.tool].input_schema.get("properties", {})
    return request.question if properties.get(name, {}).get("type") == "string" else None


def _sides(question: str) -> list[str] | None:
    sides = compared_sides(question)
    return None if sides is None else list(sides)


_TOLD_BY: dict[tuple[str, str], Callable[[str], Any]] = {
    (READ, "page"): page_asked,
    (GREP, "pattern"): text_asked,
    (COMPARE, "sides"): _sides,
}
"""What a question tells of arguments, other than all of it."""


def _required(step: Step, request: Request) -> list[str]:
    return list(request.tools[step.tool].input_schema.get("required", []))


def _lacking(step: Step, request: Request) -> list[str]:
    return [name for name in _required(step, request) if name not in step.arguments]
