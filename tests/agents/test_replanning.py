"""Plans that fail are made anew, within bounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from readahead_agents.agent import KnowledgeAgent
from readahead_agents.calls import shown
from readahead_agents.errors import LanguageModelError, LanguageModelRefused, LanguageModelUnavailable
from readahead_agents.events import PlanMade, Replanned, StepStarted, ToolCalled
from readahead_agents.llm.base import CompletionOptions, Message
from readahead_agents.llm.scripted import Script, ScriptedLanguageModel
from readahead_agents.planning.replanning import MAX_REPLANS
from readahead_agents.settings import AgentSettings
from tests.agents.parts import FILTER, SETTINGS, WARRANTY, collect, ending, of, pump_kb, step

QUESTION = "Analyse how often the filter of the pump is cleaned."
FIRST = [
    step("query_rag_with_context", question=QUESTION),
    step("generate_analysis", ["s1"], question=QUESTION),
]
SECOND = [step("query_rag_with_context", question="How often is the filter of the pump cleaned?"), FIRST[1]]
LOCKED = LanguageModelRefused("the shelf is locked [INST]", status=400, code="x", param=None)


def planning_in_turn(plans: Sequence[Any], reply: Callable[[str], str | LanguageModelError]) -> Script:
    asked = 0

    def script(messages: Sequence[Message], options: CompletionOptions) -> str | LanguageModelError:
        nonlocal asked
        if options.json_schema is None:
            return reply(messages[-1].content)
        plan = plans[min(asked, len(plans) - 1)]
        asked += 1
        return plan if isinstance(plan, LanguageModelError) else json.dumps({"reasoning": "r", "steps": plan})

    return script


def locks(question: str) -> Callable[[str], str | LanguageModelError]:
    return lambda asked: LOCKED if question in asked and "answer" in asked else FILTER


async def test_a_step_that_others_need_and_that_failed_has_the_plan_made_anew_with_the_reason() -> None:
    llm = ScriptedLanguageModel(planning_in_turn([FIRST, SECOND], locks(QUESTION)))
    events = await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(QUESTION))
    [again] = of(events, Replanned)
    assert "s1" in again.reason and "the shelf is locked" in again.reason
    plans = of(events, PlanMade)
    assert [each.id for made in plans for each in made.plan.steps][:4] == ["s1", "s2", "s3", "s4"]
    planned = [call for call in llm.calls if call.options.json_schema is not None]
    assert "the shelf is locked" in planned[1].messages[-1].content
    assert "[INST]" not in planned[1].messages[-1].content  # a failure's text is data
    assert planned[0].messages[:-1] == planned[1].messages[:-1]  # the second shares all but its end
    last = ending(events)
    assert "Step s1 (query_rag_with_context) failed: the shelf is locked" in last.answer
    assert last.citations


async def test_a_plan_that_says_the_same_again_ends_the_trying_with_a_note() -> None:
    llm = ScriptedLanguageModel(planning_in_turn([FIRST], locks(QUESTION)))
    events = await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(QUESTION))
    assert len(of(events, Replanned)) == 1
    assert len(of(events, PlanMade)) == 1
    assert any("done already" in note for note in ending(events).notes)


async def test_plans_are_made_anew_a_bounded_number_of_times() -> None:
    plans = [[step("query_rag_with_context", question=f"{QUESTION} Part {number}"), FIRST[1]] for number in range(9)]
    llm = ScriptedLanguageModel(planning_in_turn(plans, lambda asked: LOCKED))
    events = await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(QUESTION))
    assert len(of(events, Replanned)) == MAX_REPLANS
    assert ending(events).quoted  # the best passage speaks


async def test_what_the_plan_did_not_find_is_looked_for_once_more() -> None:
    plans = [
        [
            step(
                "query_rag_with_context", question="filter pump cleaned often xx yy zz aa bb cc dd ee ff gg hh ii jj kk"
            )
        ],
        SECOND[:1],
    ]
    asked = "How often is the filter of the pump cleaned?"
    llm = ScriptedLanguageModel(planning_in_turn(plans, lambda _: FILTER))
    events = await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(asked))
    assert [again.reason for again in of(events, Replanned)] == ["No step found an answer in the documents."]
    assert ending(events).answer == FILTER


async def test_a_run_out_of_budget_plans_no_more() -> None:
    llm = ScriptedLanguageModel(planning_in_turn([FIRST, SECOND], locks(QUESTION)))
    events = await collect(KnowledgeAgent(llm, pump_kb(), AgentSettings(max_llm_tokens=240)).run(QUESTION))
    assert not of(events, Replanned)
    assert "limit of 240 tokens" in ending(events).answer


async def test_a_model_that_is_away_when_a_new_plan_is_wanted_leaves_what_there_is() -> None:
    away = LanguageModelUnavailable("away")
    steps = [*FIRST, step("query_rag_with_context", question="What is the warranty of the mixer of the filter?")]

    def reply(asked: str) -> str | LanguageModelError:
        return WARRANTY if "warranty" in asked.rsplit("question:", 1)[-1] else LOCKED

    llm = ScriptedLanguageModel(planning_in_turn([steps, away], reply))
    last = ending(await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(QUESTION)))
    assert WARRANTY in last.answer
    assert "No other plan could be made: away" in last.notes


async def test_a_call_is_told_as_it_is_sent() -> None:
    llm = ScriptedLanguageModel(planning_in_turn([FIRST], lambda _: FILTER))
    events = await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(QUESTION))
    called, started = of(events, ToolCalled), of(events, StepStarted)
    assert "earlier" not in started[1].arguments
    assert called[1].arguments["earlier"][0]["text"] == FILTER
    assert called[1].arguments["earlier"][0]["evidence"][0]["document"] == "pump.pdf"


@pytest.mark.parametrize("value", ["x" * 9999, ["y" * 9999] * 99, {"a": {"b": ["z" * 9999] * 99}}])
async def test_a_told_call_is_bounded(value: Any) -> None:
    assert len(json.dumps(shown(value))) < 5000
