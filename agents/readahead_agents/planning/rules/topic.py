"""Steps that ask what the question asks, each once."""

from __future__ import annotations

import json
from dataclasses import replace

from readahead_agents.planning.action_names import ANALYSIS, CAG, COMPARE, EVIDENCE, QUERY, SUMMARY
from readahead_agents.planning.plan import Step, redirected
from readahead_agents.planning.question_kind import asks_for_analysis, asks_for_summary, compared_sides
from readahead_agents.planning.rules.request import Request, Steps, asked_by, is_own, singular
from readahead_agents.text import words

ON_TOPIC = 0.6
"""Share of the question's words that one query must ask for."""


def on_topic(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Steps that share no word with the question are a small model's invention."""
    asked = singular(request.question)
    kept = tuple(step for step in steps if not is_own(step, request) or _shares_words(singular(asked_by(step)), asked))
    gone = len(steps) - len(kept)
    return kept, f"{gone} steps that ask for something else than the question were dropped." if gone else ""


def _shares_words(said: frozenset[str], asked: frozenset[str]) -> bool:
    return not said or not asked or bool(said & asked)


def no_repeats(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A step that asks what an earlier one asks brings nothing: those that wait for it wait for the earlier one.

    To reason over what was just asked is no repetition where the question wants it.
    """
    first: dict[tuple[str, ...], str] = {}
    kept: list[Step] = []
    renamed: dict[str, str] = {}
    for step in steps:
        key = (_purpose(step, request), *sorted(singular(asked_by(step))), _rest(step))
        if key in first:
            renamed[step.id] = first[key]
        else:
            first[key] = step.id
            kept.append(step)
    mended = tuple(redirected(step, renamed) for step in kept)
    return mended, f"{len(renamed)} steps that repeated others were dropped." if renamed else ""


def _purpose(step: Step, request: Request) -> str:
    wanted = {SUMMARY: asks_for_summary(request.question), ANALYSIS: asks_for_analysis(request.question)}
    return step.tool if wanted.get(step.tool, True) or not asked_by(step) else QUERY


def _rest(step: Step) -> str:
    """The arguments of tools that we know nothing of."""
    return (
        "" if step.tool in (*EVIDENCE, ANALYSIS, SUMMARY) else json.dumps(step.arguments, sort_keys=True, default=str)
    )


def evidence_first(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A question needs evidence that was searched for in its own words."""
    asked = words(request.question)
    queries = [step for step in steps if step.tool in EVIDENCE]
    if QUERY not in request.tools or compared_sides(request.question) is not None:
        return steps, ""
    if any(_share(asked, step) >= ON_TOPIC for step in queries):
        return steps, ""
    first = Step("question", QUERY, {"question": request.question})
    return (first, *steps), "No step asked the documents the question itself: it was put first."


def read_ahead(steps: Steps, request: Request) -> tuple[Steps, str]:
    """What the model has read already is asked there: a search would have passages read anew."""
    if CAG not in request.tools:
        return steps, ""
    mended = tuple(replace(step, tool=CAG) if step.tool == QUERY else step for step in steps)
    return mended, "Questions go to the documents that have been read already." if mended != steps else ""


def _share(asked: frozenset[str], step: Step) -> float:
    return len(asked & words(asked_by(step))) / len(asked) if asked else 1.0


def what_was_asked(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A summary or an analysis that the question asks for is in the plan."""
    present = {step.tool for step in steps}
    if asks_for_summary(request.question):
        tool, argument = SUMMARY, "topic"
    elif asks_for_analysis(request.question):
        tool, argument = ANALYSIS, "question"
    else:
        return steps, ""
    if {tool, COMPARE if tool == ANALYSIS else tool} & present or tool not in request.tools:
        return steps, ""
    added = Step("asked", tool, {argument: request.question})
    return (*steps, added), f"{tool} was added, as the question asks for it."
