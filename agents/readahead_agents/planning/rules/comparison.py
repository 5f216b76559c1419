"""Plans of comparisons: both sides, each by itself, and a step that compares them."""

from __future__ import annotations

from dataclasses import replace

from readahead_agents.planning.action_names import ANALYSIS, COMPARE, EVIDENCE, QUERY
from readahead_agents.planning.plan import Step
from readahead_agents.planning.plan_schema import MAX_ITEMS, fits
from readahead_agents.planning.question_kind import compared_sides, question_about
from readahead_agents.planning.rules.request import Request, Steps, asked_by
from readahead_agents.text import words


def comparing_steps(steps: Steps, request: Request) -> tuple[Steps, str]:
    """`compare` needs two sides at least, as the question names them where it does; it searches for them itself, so
    queries beside it only repeat it. Without sides it is an analysis."""
    sides = compared_sides(request.question)
    mended: list[Step] = []
    for step in steps:
        if step.tool != COMPARE:
            mended.append(step)
        elif sides is not None:
            arguments = {"question": request.question, "sides": list(sides)}
            mended.append(replace(step, arguments=arguments if not _compares(step, sides) else step.arguments))
        elif fits(step.arguments, request.tools[COMPARE]):
            mended.append(step)
        elif ANALYSIS in request.tools:
            mended.append(replace(step, tool=ANALYSIS, arguments={"question": request.question}))
    if sides is not None and any(step.tool == COMPARE for step in mended):
        first = next(step for step in mended if step.tool == COMPARE)
        mended = [step for step in mended if step.tool not in (*EVIDENCE, ANALYSIS, COMPARE) or step is first]
    changed = tuple(mended) != steps
    return tuple(mended), "The comparison was given its sides, and what only repeats it was dropped." if changed else ""


def _compares(step: Step, sides: tuple[str, str]) -> bool:
    """Whether the step names both sides, each by a word of its own, and asks something."""
    named = step.arguments.get("sides")
    if not asked_by(step) or not isinstance(named, list) or not 2 <= len(named) <= MAX_ITEMS:
        return False
    said = [words(str(name)) for name in named]
    return all(any(words(side) & each for each in said) for side in sides)


def both_sides(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A comparison needs evidence for each side by itself, none for anything else, and a step that compares."""
    sides = compared_sides(request.question)
    if sides is None or QUERY not in request.tools or any(step.tool == COMPARE for step in steps):
        return steps, ""
    unique = [words(side) - words(other) for side, other in (sides, reversed(sides))]
    missing = [
        Step(f"side{number}", QUERY, {"question": question_about(side, sides, request.question)})
        for number, side in enumerate(sides)
        if not any(_asks_for(step, unique[number], unique[1 - number]) for step in steps)
    ]
    either = unique[0] | unique[1]
    queries = (*missing, *(step for step in steps if step.tool in EVIDENCE and words(asked_by(step)) & either))
    others = [step for step in steps if step.tool not in (*EVIDENCE, ANALYSIS)]
    mended = (*queries, *others)
    if ANALYSIS in request.tools:
        evidence = tuple(step.id for step in queries)
        mended = (*mended, Step("compare", ANALYSIS, {"question": request.question}, evidence))
    changed = bool(missing) or all(step.tool != ANALYSIS for step in steps)
    return mended, "The comparison was given both sides and a step that compares them." if changed else ""


def _asks_for(step: Step, side: frozenset[str], other: frozenset[str]) -> bool:
    asked = words(asked_by(step))
    return step.tool in EVIDENCE and bool(asked & side) and not asked & other
