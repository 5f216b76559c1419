"""Tools that a plan's steps may use: those there are, with what they need, for what was asked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from readahead_agents.planning.plan import Step
from readahead_agents.planning.plan_schema import fits, fitting
from readahead_agents.planning.rules.request import Request, Steps, is_own, singular


def known_tools(steps: Steps, request: Request) -> tuple[Steps, str]:
    kept = tuple(step for step in steps if step.tool in request.tools)
    gone = sorted({step.tool for step in steps} - request.tools.keys())
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
    """Texts that a tool needs and the plan leaves out are the question; arguments that no tool takes go."""
    mended = tuple(replace(step, arguments=_arguments(step, request)) for step in steps)
    changed = [step.tool for step, new in zip(steps, mended, strict=True) if step.arguments != new.arguments]
    return mended, f"Arguments were completed for {', '.join(dict.fromkeys(changed))}." if changed else ""


def _arguments(step: Step, request: Request) -> dict[str, Any]:
    if not is_own(step, request):
        return step.arguments
    schema = request.tools[step.tool].input_schema
    properties: dict[str, Any] = schema.get("properties", {})
    written = fitting(step.arguments, request.tools[step.tool])
    given = {name: value for name, value in written.items() if name in properties and value not in ("", None)}
    texts = [name for name in schema.get("required", []) if properties.get(name, {}).get("type") == "string"]
    return {name: request.question for name in texts if name not in given} | given
