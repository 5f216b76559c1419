"""Plans of comparisons: one step that searches each side by itself and sets them side by side."""

from __future__ import annotations

from dataclasses import replace

from readahead_agents.planning.action_names import ANALYSIS, COMPARE, EVIDENCE, SUMMARY
from readahead_agents.planning.plan import Step
from readahead_agents.planning.plan_schema import fits
from readahead_agents.planning.question_kind import asks_for_analysis, asks_for_summary, compared_sides
from readahead_agents.planning.rules.request import Request, Steps
from readahead_agents.text import words


def comparing_steps(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A question that names two sides is compared by `compare`, which searches for each: other queries, analyses and
    summaries that nobody asked for would only repeat it."""
    if COMPARE not in request.tools:
        return steps, ""
    sides = compared_sides(request.question)
    if sides is None:
        mended, change = _analysed(steps, request), "The question names no sides, so nothing is compared."
    else:
        mended = _compared(steps, request, sides)
        change = "The comparison was given its sides, and what only repeats it was dropped."
    return mended, change if mended != steps else ""


def _analysed(steps: Steps, request: Request) -> Steps:
    """A comparison of nothing is an analysis where one was asked for, and else a small model's whim."""
    kept: list[Step] = []
    for step in steps:
        if step.tool != COMPARE or _named(step, request) is not None:
            kept.append(step)
        elif ANALYSIS in request.tools and asks_for_analysis(request.question):
            kept.append(replace(step, tool=ANALYSIS, arguments={"question": request.question}))
    return tuple(kept)


def _compared(steps: Steps, request: Request, sides: tuple[str, str]) -> Steps:
    """The question's own words for its sides; a plan's where it tells more than two apart."""
    named = (_named(step, request) or () for step in steps if step.tool == COMPARE)
    told = max(named, key=len, default=())
    arguments = {"question": request.question, "sides": list(told if len(told) > len(sides) else sides)}
    repeating = (*EVIDENCE, ANALYSIS, COMPARE, *(() if asks_for_summary(request.question) else (SUMMARY,)))
    return (Step("compare", COMPARE, arguments), *(step for step in steps if step.tool not in repeating))


def _named(step: Step, request: Request) -> tuple[str, ...] | None:
    """The sides that a step names, where they are sides: in the question's words, each with one of its own."""
    if not fits(step.arguments, request.tools[COMPARE]):
        return None
    sides = tuple(map(str, step.arguments["sides"]))
    said, asked = [words(side) for side in sides], words(request.question)
    for number, side in enumerate(said):
        others = frozenset[str]().union(*said[:number], *said[number + 1 :])
        if not side <= asked or not side - others:
            return None
    return sides
