"""Mends a plan that a weak model wrote, rule by rule. Each says what it changed."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.planning.action_names import ANALYSIS, QUERY, SUMMARY
from readahead_agents.planning.plan import Plan, Step
from readahead_agents.planning.question_kind import asks_for_analysis, asks_for_summary
from readahead_agents.planning.rules.comparison import comparing_steps
from readahead_agents.planning.rules.order import (
    ordered,
    renumbered,
    wait_for_evidence,
    with_what_they_take,
    within_limit,
)
from readahead_agents.planning.rules.places import as_it_stands, nothing_invented
from readahead_agents.planning.rules.request import Request, Rule
from readahead_agents.planning.rules.tools import (
    complete_arguments,
    known_tools,
    others_on_purpose,
    with_what_they_need,
)
from readahead_agents.planning.rules.topic import evidence_first, no_repeats, on_topic, read_ahead, what_was_asked

RULES: tuple[Rule, ...] = (
    known_tools,
    others_on_purpose,
    on_topic,
    nothing_invented,
    ordered,
    no_repeats,
    complete_arguments,
    comparing_steps,
    with_what_they_need,
    evidence_first,
    as_it_stands,
    what_was_asked,
    read_ahead,
    within_limit,
    ordered,
    with_what_they_take,
    wait_for_evidence,
)
"""For what a weak model wrote: executable, and sensible for the question."""

RULES_OF_FORM: tuple[Rule, ...] = (
    known_tools,
    complete_arguments,
    within_limit,
    ordered,
    with_what_they_take,
    wait_for_evidence,
)
"""For a plan that somebody means as it stands: executable."""


def repair(plan: Plan, question: str, tools: Sequence[ToolSpec], max_steps: int, rules: Sequence[Rule] = RULES) -> Plan:
    """The plan, executable and sensible: known tools, complete arguments, no circle, evidence for the question."""
    request = Request(question, {tool.name: tool for tool in tools}, max_steps)
    steps, repairs = plan.steps, list(plan.repairs)
    for rule in rules:
        steps, change = rule(steps, request)
        repairs += [change] if change else []
    return Plan(renumbered(steps), plan.reasoning, tuple(repairs))


def rule_plan(question: str, tools: Sequence[ToolSpec], max_steps: int, why: str) -> Plan:
    """A plan without a model: evidence first, then what the question's words ask for."""
    steps = [Step("s1", QUERY, {"question": question})]
    if asks_for_summary(question):
        steps.append(Step("s2", SUMMARY, {"topic": question}, ("s1",)))
    elif asks_for_analysis(question):
        steps.append(Step("s2", ANALYSIS, {"question": question}, ("s1",)))
    plan = Plan(tuple(steps), "Evidence first, then what the question asks for.", (why,))
    return repair(plan, question, tools, max_steps)
