"""Whether a plan has to be made anew, and why: decided by what its steps came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from readahead_agents.executor import StepResult
from readahead_agents.planning.plan import Plan, Step, redirected, references

MAX_REPLANS = 2
MAX_REASON_CHARS = 300


def reason_to_replan(plan: Plan, results: Sequence[StepResult]) -> str | None:
    """One sentence for people and for the planner; None where the results are worth an answer.

    Args:
        results: Of the plan's own steps.
    """
    needed = {name for step in plan.steps for name in (*step.depends_on, *references(step.arguments))}
    for done in results:
        if done.result is None and done.step.id in needed:
            told = f"Step {done.step.id} ({done.step.tool}), which others depend on, failed: {done.failure}"
            return told[:MAX_REASON_CHARS]
    if all(done.result is None or not done.result.covered or done.server for done in results):
        failures = " ".join(done.failure for done in results if done.result is None)
        return f"No step found an answer in the documents. {failures}".strip()[:MAX_REASON_CHARS]
    return None


def continued(plan: Plan, before: int) -> Plan:
    """The plan with its steps numbered behind the `before` steps that ran already."""
    names = {step.id: f"s{number}" for number, step in enumerate(plan.steps, start=before + 1)}
    return replace(plan, steps=tuple(replace(redirected(step, names), id=names[step.id]) for step in plan.steps))


def asks_the_same(plan: Plan, results: Sequence[StepResult]) -> bool:
    """Whether every step of the plan was run before with the same arguments."""
    asked = [_call(done.step) for done in results]
    return all(_call(step) in asked for step in plan.steps)


def _call(step: Step) -> tuple[str, object]:
    return step.tool, step.arguments
