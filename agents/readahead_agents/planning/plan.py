"""A plan: a graph of tool calls. The book's shape (`plan`, `reasoning`, `estimated_steps`) is read and written too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from readahead_agents.errors import PlanInvalid
from readahead_agents.mcp.toolset import ToolSpec

EARLIER = "earlier"
"""The argument by which a tool takes the results of the steps that its step depends on."""

MAX_WRITTEN = 64
"""Steps of a plan as it is written; how many are executed is a setting."""


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call. An argument `{"from": "s1"}` stands for the result of step s1."""

    id: str
    tool: str
    arguments: dict[str, Any]
    depends_on: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        depends_on = list(self.depends_on)
        return {"id": self.id, "tool": self.tool, "arguments": self.arguments, "depends_on": depends_on}


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in an order in which each comes after those that it depends on."""

    steps: tuple[Step, ...]
    reasoning: str
    repairs: tuple[str, ...] = ()
    """What rules changed in it, and why."""

    def to_json(self) -> dict[str, Any]:
        """The book's three keys, and our steps beside them."""
        return {
            "plan": [step.tool for step in self.steps],
            "reasoning": self.reasoning,
            "estimated_steps": len(self.steps),
            "steps": [step.to_json() for step in self.steps],
        }


def parse_plan(data: object, tools: Sequence[ToolSpec]) -> Plan:
    """Reads a plan for these tools. Single unknown ones, references and circles are not judged here: `repair` mends
    them.

    Raises:
        PlanInvalid: When it holds no list of steps, or none with a tool that exists.
    """
    plan = written_plan(data)
    known = {tool.name for tool in tools}
    if all(step.tool not in known for step in plan.steps):
        raise PlanInvalid(f"No step uses a tool that exists; they are {', '.join(sorted(known))}.")
    return plan


def written_plan(data: object) -> Plan:
    """Reads a plan in our shape (`steps`) or the book's (`plan`: names in order).

    Steps without an id are named by their place, s1, s2, ….

    Raises:
        PlanInvalid: When it holds no list of steps, more than `MAX_WRITTEN`, or two of one name.
    """
    if not isinstance(data, Mapping):
        raise PlanInvalid(f"A plan is an object with `steps` or `plan`, not {type(data).__name__}.")
    raw = data.get("steps") or data.get("plan")
    if not isinstance(raw, list) or not raw:
        raise PlanInvalid("The plan has no steps.")
    if len(raw) > MAX_WRITTEN:
        raise PlanInvalid(f"The plan has {len(raw)} steps, and {MAX_WRITTEN} are the most that are read.")
    steps = tuple(_step(number, item) for number, item in enumerate(raw, start=1))
    ids = [step.id for step in steps]
    if twice := next((name for name in ids if ids.count(name) > 1), None):
        raise PlanInvalid(f"Two steps of the plan are called {twice[:64]!r}; each needs a name of its own.")
    return Plan(steps, str(data.get("reasoning") or ""))


def _step(number: int, item: object) -> Step:
    if isinstance(item, str):
        return Step(f"s{number}", item, {})
    if not isinstance(item, Mapping):
        raise PlanInvalid(f"Step {number} is neither a tool's name nor an object.")
    arguments = item.get("arguments")
    depends_on = item.get("depends_on")
    return Step(
        id=str(item.get("id") or f"s{number}"),
        tool=str(item.get("tool") or ""),
        arguments=dict(arguments) if isinstance(arguments, Mapping) else {},
        depends_on=tuple(map(str, depends_on)) if isinstance(depends_on, list) else (),
    )


def is_reference(value: object) -> bool:
    """Whether an argument stands for another step's result."""
    return isinstance(value, Mapping) and set(value) == {"from"} and isinstance(value["from"], str)


def references(arguments: object) -> set[str]:
    """The ids of the steps whose results the arguments ask for."""
    if isinstance(arguments, Mapping):
        if is_reference(arguments):
            return {arguments["from"]}
        return _union(arguments.values())
    return _union(arguments) if isinstance(arguments, list) else set()


def _union(values: Iterable[object]) -> set[str]:
    return set().union(*map(references, values))


def redirected(step: Step, names: Mapping[str, str]) -> Step:
    """The step with other names for the steps that it depends on or refers to."""
    depends_on = tuple(dict.fromkeys(names.get(dependency, dependency) for dependency in step.depends_on))
    return replace(step, depends_on=depends_on, arguments={k: _rename(v, names) for k, v in step.arguments.items()})


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_rename(item, names) for item in value]
    if isinstance(value, dict):
        if is_reference(value):
            return {"from": names.get(value["from"], value["from"])}
        return {key: _rename(item, names) for key, item in value.items()}
    return value
