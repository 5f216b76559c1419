"""Plans of comparisons: one step that searches each side by itself and sets them side by side."""

from __future__ import annotations

from dataclasses import replace

from readahead_agents.planning.action_names import ANALYSIS, COMPARE, EVIDENCE, SUMMARY
from readahead_agents.planning.plan import Step
from readahead_agents.planning.plan_schema import MAX_ITEMS, fits
from readahead_agents.planning.question_kind import asks_for_summary, compared_sides
from readahead_agents.planning.rules.request import Request, Steps, asked_by
from readahead_agents.text import words


def comparing_steps(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A question that names two sides is compared by `compare`, which searches for each: other queries, analyses and
    summaries that nobody asked for would only repeat it. Where the question names none, a step that does not either is
    an analysis."""
    if COMPARE not in request.tools:
        return steps, ""
    sides = compared_sides(request.question)
    mended = _analysed(steps, request) if sides is None else _compared(steps, request, sides)
    changed = mended != steps
    return mended, "The comparison was given its sides, and what only repeats it was dropped." if changed else ""


def _analysed(steps: Steps, request: Request) -> Steps:
    mended = []
    for step in steps:
        if step.tool == COMPARE and not fits(step.arguments, request.tools[COMPARE]):
            step = replace(step, tool=ANALYSIS, arguments={"question": request.question})
        mended.append(step)
    return tuple(step for step in mended if step.tool in request.tools)


def _compared(steps: Steps, request: Request, sides: tuple[str, str]) -> Steps:
    given = next((step for step in steps if step.tool == COMPARE and _compares(step, sides)), None)
    one = given or Step("compare", COMPARE, {"question": request.question, "sides": list(sides)})
    repeating = (*EVIDENCE, ANALYSIS, COMPARE, *(() if asks_for_summary(request.question) else (SUMMARY,)))
    return (one, *(step for step in steps if step.tool not in repeating))


def _compares(step: Step, sides: tuple[str, str]) -> bool:
    """Whether the step names both sides, each by a word of its own, and asks something."""
    named = step.arguments.get("sides")
    if not asked_by(step) or not isinstance(named, list) or not 2 <= len(named) <= MAX_ITEMS:
        return False
    said = [words(str(name)) for name in named]
    return all(any(words(side) & each for each in said) for side in sides)
