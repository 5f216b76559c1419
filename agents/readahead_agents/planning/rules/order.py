"""The order of steps: each behind what it waits for, and no more of them than are allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from readahead_agents.planning.action_names import ANALYSIS, EVIDENCE, SUMMARY
from readahead_agents.planning.plan import Step, redirected, references
from readahead_agents.planning.rules.request import Request, Steps


def ordered(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Every step behind those it depends on; a dependency that is unknown or closes a circle is dropped."""
    waiting = [replace(step, depends_on=_dependencies(step)) for step in steps]
    ids = {step.id for step in waiting}
    done: list[Step] = []
    dropped = 0
    while waiting:
        placed = {step.id for step in done}
        ready = _next(waiting, ids, placed)
        waiting.remove(ready)
        known = tuple(dependency for dependency in ready.depends_on if dependency in placed)
        dropped += len(ready.depends_on) - len(known)
        done.append(replace(ready, depends_on=known))
    return tuple(done), f"{dropped} dependencies on unknown or later steps were dropped." if dropped else ""


def _next(waiting: Sequence[Step], ids: set[str], placed: set[str]) -> Step:
    """A step that waits for nothing more, else any to cut a circle at; queries first, as others need evidence."""
    ready = [step for step in waiting if ids & set(step.depends_on) <= placed] or waiting
    return next((step for step in ready if step.tool in EVIDENCE), ready[0])


def _dependencies(step: Step) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*step.depends_on, *sorted(references(step.arguments))]))


def within_limit(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Queries before others, and of those that reason over the documents the last one goes last."""
    if len(steps) <= request.max_steps:
        return steps, ""
    spare = len(steps) - request.max_steps
    kept = steps[: request.max_steps]
    final = steps[-1]
    if final.tool not in EVIDENCE and request.max_steps > 1:
        kept = (*steps[: request.max_steps - 1], final)
    return kept, f"{spare} steps over the limit of {request.max_steps} were dropped."


def with_what_they_take(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Steps that take the result of a step that is not there, or not before them, can't be called."""
    kept: list[Step] = []
    for step in steps:
        there = {earlier.id for earlier in kept}
        if references(step.arguments) <= there:
            kept.append(replace(step, depends_on=tuple(name for name in step.depends_on if name in there)))
    ids = {step.id for step in kept}
    gone = sorted({step.tool for step in steps if step.id not in ids})
    told = f"Calls with results of steps that are not there were dropped: {', '.join(gone)}." if gone else ""
    return tuple(kept), told


def wait_for_evidence(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A step that reasons over the documents and depends on nothing waits for every query before it."""
    mended: list[Step] = []
    changed = []
    for step in steps:
        queries = tuple(earlier.id for earlier in mended if earlier.tool in EVIDENCE)
        if step.tool in (ANALYSIS, SUMMARY) and not step.depends_on and queries:
            changed.append(step.tool)
            step = replace(step, depends_on=queries)
        mended.append(step)
    return tuple(mended), f"{', '.join(dict.fromkeys(changed))} waits for the evidence." if changed else ""


def renumbered(steps: Steps) -> Steps:
    """Ids by place: s1, s2, …, in references too."""
    names = {step.id: f"s{number}" for number, step in enumerate(steps, start=1)}
    return tuple(replace(redirected(step, names), id=names[step.id]) for step in steps)
