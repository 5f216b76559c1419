"""Rules that make sense of a plan that a weak model wrote. Each says what it changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.planning.plan import Plan, Step, redirected, references
from readahead_agents.planning.plan_schema import MAX_ITEMS, fits, fitting
from readahead_agents.planning.question_kind import asks_for_analysis, asks_for_summary, compared_sides, question_about
from readahead_agents.text import words

QUERY, CAG = "query_rag_with_context", "query_cag"
ANALYSIS, SUMMARY, COMPARE = "generate_analysis", "generate_summary", "compare"
EVIDENCE = (QUERY, CAG)
"""Tools that answer one question from the documents."""
ON_TOPIC = 0.6
"""Share of the question's words that one query must ask for."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is for, and what it may use."""

    question: str
    tools: dict[str, ToolSpec]
    max_steps: int


Steps = tuple[Step, ...]
Rule = Callable[[Steps, Request], tuple[Steps, str]]
"""Gives the mended steps, and what was changed: an empty text where nothing was."""


def repair(plan: Plan, question: str, tools: Sequence[ToolSpec], max_steps: int) -> Plan:
    """The plan, executable and sensible: known tools, complete arguments, no circle, evidence for the question."""
    request = Request(question, {tool.name: tool for tool in tools}, max_steps)
    steps, repairs = plan.steps, list(plan.repairs)
    for rule in RULES:
        steps, change = rule(steps, request)
        repairs += [change] if change else []
    return Plan(_renumbered(steps), plan.reasoning, tuple(repairs))


def rule_plan(question: str, tools: Sequence[ToolSpec], max_steps: int, why: str) -> Plan:
    """A plan without a model: evidence first, then what the question's words ask for."""
    steps = [Step("s1", QUERY, {"question": question})]
    if asks_for_summary(question):
        steps.append(Step("s2", SUMMARY, {"topic": question}, ("s1",)))
    elif asks_for_analysis(question):
        steps.append(Step("s2", ANALYSIS, {"question": question}, ("s1",)))
    plan = Plan(tuple(steps), "Evidence first, then what the question asks for.", (why,))
    return repair(plan, question, tools, max_steps)


def _known_tools(steps: Steps, request: Request) -> tuple[Steps, str]:
    kept = tuple(step for step in steps if step.tool in request.tools)
    gone = sorted({step.tool for step in steps} - request.tools.keys())
    return kept, f"Steps with tools that do not exist were dropped: {', '.join(gone)}." if gone else ""


def _complete_arguments(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Texts that a tool needs and the plan leaves out are the question; arguments that no tool takes go."""
    mended = tuple(replace(step, arguments=_arguments(step, request)) for step in steps)
    changed = [step.tool for step, new in zip(steps, mended, strict=True) if step.arguments != new.arguments]
    return mended, f"Arguments were completed for {', '.join(dict.fromkeys(changed))}." if changed else ""


def _arguments(step: Step, request: Request) -> dict[str, Any]:
    if not _is_own(step, request):
        return step.arguments
    schema = request.tools[step.tool].input_schema
    properties: dict[str, Any] = schema.get("properties", {})
    written = fitting(step.arguments, request.tools[step.tool])
    given = {name: value for name, value in written.items() if name in properties and value not in ("", None)}
    texts = [name for name in schema.get("required", []) if properties.get(name, {}).get("type") == "string"]
    return {name: request.question for name in texts if name not in given} | given


def _no_repeats(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A step that asks what an earlier one asks brings nothing: those that wait for it wait for the earlier one.

    To reason over what was just asked is no repetition where the question wants it.
    """
    first: dict[tuple[str, ...], str] = {}
    kept: list[Step] = []
    renamed: dict[str, str] = {}
    for step in steps:
        key = (_purpose(step, request), *sorted(_singular(_text(step))), _rest(step))
        if key in first:
            renamed[step.id] = first[key]
        else:
            first[key] = step.id
            kept.append(step)
    mended = tuple(redirected(step, renamed) for step in kept)
    return mended, f"{len(renamed)} steps that repeated others were dropped." if renamed else ""


def _purpose(step: Step, request: Request) -> str:
    wanted = {SUMMARY: asks_for_summary(request.question), ANALYSIS: asks_for_analysis(request.question)}
    return step.tool if wanted.get(step.tool, True) or not _text(step) else QUERY


def _text(step: Step) -> str:
    """What a step asks, in words."""
    return str(step.arguments.get("question") or step.arguments.get("topic") or "")


def _rest(step: Step) -> str:
    """The arguments of tools that we know nothing of."""
    return (
        "" if step.tool in (*EVIDENCE, ANALYSIS, SUMMARY) else json.dumps(step.arguments, sort_keys=True, default=str)
    )


def _singular(text: str) -> frozenset[str]:
    return frozenset(word.removesuffix("s") for word in words(text))


def _on_topic(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Steps that share no word with the question are a small model's invention."""
    asked = _singular(request.question)
    kept = tuple(step for step in steps if not _is_own(step, request) or _shares_words(_singular(_text(step)), asked))
    gone = len(steps) - len(kept)
    return kept, f"{gone} steps that ask for something else than the question were dropped." if gone else ""


def _others_on_purpose(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Tools of other servers are used where the step is complete and has to do with the question: a small model picks
    any tool that it is shown."""
    asked = _singular(request.question)
    kept = tuple(step for step in steps if _is_own(step, request) or _on_purpose(step, request, asked))
    gone = sorted({step.tool for step in steps if step not in kept})
    return kept, f"Calls that do not fit the tool or the question were dropped: {', '.join(gone)}." if gone else ""


def _is_own(step: Step, request: Request) -> bool:
    return not request.tools[step.tool].server


def _on_purpose(step: Step, request: Request, asked: frozenset[str]) -> bool:
    tool = request.tools[step.tool]
    values = json.dumps(list(step.arguments.values()), ensure_ascii=False, default=str)
    name = tool.name.removeprefix(tool.server).replace("_", " ")
    return fits(step.arguments, tool) and bool(_singular(f"{name} {values}") & asked)


def _shares_words(said: frozenset[str], asked: frozenset[str]) -> bool:
    return not said or not asked or bool(said & asked)


def _ordered(steps: Steps, request: Request) -> tuple[Steps, str]:
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


def _evidence_first(steps: Steps, request: Request) -> tuple[Steps, str]:
    """A question needs evidence that was searched for in its own words."""
    asked = words(request.question)
    queries = [step for step in steps if step.tool in EVIDENCE]
    if QUERY not in request.tools or compared_sides(request.question) is not None:
        return steps, ""
    if any(_share(asked, step) >= ON_TOPIC for step in queries):
        return steps, ""
    first = Step("question", QUERY, {"question": request.question})
    return (first, *steps), "No step asked the documents the question itself: it was put first."


def _share(asked: frozenset[str], step: Step) -> float:
    return len(asked & words(_text(step))) / len(asked) if asked else 1.0


def _comparing_steps(steps: Steps, request: Request) -> tuple[Steps, str]:
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
    if not _text(step) or not isinstance(named, list) or not 2 <= len(named) <= MAX_ITEMS:
        return False
    said = [words(str(name)) for name in named]
    return all(any(words(side) & each for each in said) for side in sides)


def _both_sides(steps: Steps, request: Request) -> tuple[Steps, str]:
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
    queries = (*missing, *(step for step in steps if step.tool in EVIDENCE and words(_text(step)) & either))
    others = [step for step in steps if step.tool not in (*EVIDENCE, ANALYSIS)]
    mended = (*queries, *others)
    if ANALYSIS in request.tools:
        evidence = tuple(step.id for step in queries)
        mended = (*mended, Step("compare", ANALYSIS, {"question": request.question}, evidence))
    changed = bool(missing) or all(step.tool != ANALYSIS for step in steps)
    return mended, "The comparison was given both sides and a step that compares them." if changed else ""


def _what_was_asked(steps: Steps, request: Request) -> tuple[Steps, str]:
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


def _asks_for(step: Step, side: frozenset[str], other: frozenset[str]) -> bool:
    asked = words(_text(step))
    return step.tool in EVIDENCE and bool(asked & side) and not asked & other


def _within_limit(steps: Steps, request: Request) -> tuple[Steps, str]:
    """Queries before others, and of those that reason over the documents the last one goes last."""
    if len(steps) <= request.max_steps:
        return steps, ""
    spare = len(steps) - request.max_steps
    kept = steps[: request.max_steps]
    final = steps[-1]
    if final.tool not in EVIDENCE and request.max_steps > 1:
        kept = (*steps[: request.max_steps - 1], final)
    return kept, f"{spare} steps over the limit of {request.max_steps} were dropped."


def _wait_for_evidence(steps: Steps, request: Request) -> tuple[Steps, str]:
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


def _renumbered(steps: Steps) -> Steps:
    """Ids by place: s1, s2, …, in references too."""
    names = {step.id: f"s{number}" for number, step in enumerate(steps, start=1)}
    return tuple(replace(redirected(step, names), id=names[step.id]) for step in steps)


RULES: tuple[Rule, ...] = (
    _known_tools,
    _others_on_purpose,
    _on_topic,
    _ordered,
    _no_repeats,
    _complete_arguments,
    _comparing_steps,
    _evidence_first,
    _both_sides,
    _what_was_asked,
    _within_limit,
    _ordered,
    _wait_for_evidence,
)
