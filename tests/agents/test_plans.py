"""Plans: read, written, mended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from readahead_agents.errors import PlanInvalid
from readahead_agents.mcp.toolset import ToolSpec
from readahead_agents.planning.plan import Plan, parse_plan
from readahead_agents.planning.question_kind import MAX_COMPARISON_CHARS, compared_sides
from readahead_agents.planning.repair import RULES_OF_FORM, repair, rule_plan
from readahead_agents.planning.written_plan import read_plan
from tests.agents.parts import step


def tool(name: str, **arguments: str) -> ToolSpec:
    properties = {argument: {"type": kind} for argument, kind in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": [next(iter(arguments))]}
    return ToolSpec(name, "", schema, read_only=True)


TOOLS = [
    tool("doc_read", question="string", page="string"),
    tool("kb_grep", question="string", pattern="string"),
    tool("generate_analysis", question="string", earlier="array"),
    tool("generate_summary", topic="string", earlier="array"),
    tool("query_rag_with_context", question="string"),
]
QUESTION = "How often is the filter cleaned?"
ASK = step("query_rag_with_context", question=QUESTION)


def mended(steps: list[Any], question: str = QUESTION, max_steps: int = 6) -> Plan:
    return repair(parse_plan({"steps": steps, "reasoning": "because"}, TOOLS), question, TOOLS, max_steps)


def shape(plan: Plan) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(each.id, each.tool, each.depends_on) for each in plan.steps]


def test_the_books_shape_is_read_and_written() -> None:
    book = {"plan": ["query_rag_with_context", "generate_summary"], "reasoning": "first ask", "estimated_steps": 2}
    plan = repair(parse_plan(book, TOOLS), QUESTION, TOOLS, 6)
    written = plan.to_json()
    assert {key: written[key] for key in book} == book
    assert [each.arguments for each in plan.steps] == [{"question": QUESTION}, {"topic": QUESTION}]
    assert plan.steps[1].depends_on == ("s1",)


def test_our_shape_survives_writing_and_reading() -> None:
    plan = mended([ASK, step("generate_analysis", ["s1"], question="Why?")])
    assert parse_plan(plan.to_json(), TOOLS).steps == plan.steps


@pytest.mark.parametrize("data", [[], {}, {"plan": []}, {"steps": [3]}, {"plan": ["no_such_tool"]}, "text"])
def test_what_is_no_plan_is_refused(data: object) -> None:
    with pytest.raises(PlanInvalid):
        parse_plan(data, TOOLS)


def test_a_sensible_plan_stays_as_it_is() -> None:
    plan = mended([ASK])
    assert shape(plan) == [("s1", "query_rag_with_context", ())]
    assert plan.repairs == ()


def test_a_question_is_given_evidence_when_the_plan_asks_for_none() -> None:
    plan = mended([step("generate_summary", topic="filters")])
    assert shape(plan) == [("s1", "query_rag_with_context", ()), ("s2", "generate_summary", ("s1",))]
    assert plan.steps[0].arguments == {"question": QUESTION}
    assert any("question itself" in repair_ for repair_ in plan.repairs)


SCHEMA = {
    "question": {"type": "string"},
    "sides": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 4},
}
COMPARE = ToolSpec("compare", "", {"type": "object", "properties": SCHEMA, "required": [*SCHEMA]}, read_only=True)


@pytest.mark.parametrize(
    ("question", "written", "compared"),
    [
        ("Compare oil with gas.", ["depends_on:[]", "oil with gas"], ["oil", "gas"]),
        ("Compare oil with gas.", ["the gas", "the oil"], ["oil", "gas"]),
        ("Compare oil, wood and gas.", ["oil", "wood", "gas"], ["oil", "wood", "gas"]),
        ("Compare the three fuels: oil, wood, gas.", ["oil", "gas"], ["oil", "gas"]),
        ("Compare the three fuels.", ["oil", "gas"], None),
    ],
)
def test_sides_are_the_questions_own(question: str, written: list[str], compared: list[str] | None) -> None:
    tools = [*TOOLS, COMPARE]
    plan = repair(parse_plan({"steps": [step("compare", question=question, sides=written)]}, tools), question, tools, 6)
    found = [each.arguments["sides"] for each in plan.steps if each.tool == "compare"]
    assert found == ([compared] if compared else [])
    assert compared or "generate_analysis" in [each.tool for each in plan.steps]


def test_a_comparison_of_nothing_is_no_step_of_a_plain_question() -> None:
    steps = [step("compare", question=QUESTION, sides=["filter", "filter"]), ASK]
    tools = [*TOOLS, COMPARE]
    plan = repair(parse_plan({"steps": steps}, tools), QUESTION, tools, 6)
    assert [each.tool for each in plan.steps] == ["query_rag_with_context"]


def test_a_comparison_is_one_step_that_names_both_sides() -> None:
    question = "Compare the warranty of the pump with that of the mixer."
    steps = [
        step("query_rag_with_context", question="What is the warranty of the pump?"),
        step("generate_analysis", ["s1"], question=question),
        step("generate_summary", ["s2"], topic="the warranty"),
        step("extract_table", question="the warranty"),
    ]
    tools = [*TOOLS, COMPARE, tool("extract_table", question="string")]
    plan = repair(parse_plan({"steps": steps}, tools), question, tools, 6)
    assert shape(plan) == [("s1", "compare", ()), ("s2", "extract_table", ())]
    assert plan.steps[0].arguments["sides"] == ["the warranty of the pump", "the warranty of the mixer"]
    assert plan.repairs


@pytest.mark.parametrize(
    ("question", "sides"),
    [
        ("Compare the limit in zone A with that in zone B.", ("the limit in zone A", "the limit in zone B")),
        ("Compare the limit in zone A with zone B.", ("the limit in zone A", "the limit in zone B")),
        (
            "Compare the fee of a boat of up to 10 m and of up to 12 m.",
            ("the fee of a boat of up to 10 m", "the fee of a boat of up to 12 m"),
        ),
        (
            "Compare the fee of a boat of up to 10 m and of a boat of up to 12 m for a week in summer.",
            (
                "the fee of a boat of up to 10 m for a week in summer",
                "the fee of a boat of up to 12 m for a week in summer",
            ),
        ),
        ("Compare the fee of a boat of 10 m with 12 m.", ("the fee of a boat of 10 m", "the fee of a boat of 12 m")),
        (
            "Compare the price of the small boat to the large boat.",
            ("the price of the small boat", "the price of the large boat"),
        ),
        ("Compare the term and price of A with those of B.", ("the term and price of A", "the term and price of B")),
        ("Compare the warranty of the pump with the policy.", ("the warranty of the pump", "the policy")),
        ("What is the difference between sick leave and annual leave?", ("sick leave", "annual leave")),
        ("How does the old roof differ from the new one?", ("the old roof", "the new one")),
        ("Which is better, remote work or office work?", ("remote work", "office work")),
        ("Compare Ada Lark and Grace Wren's birth dates.", ("Ada Lark's birth dates", "Grace Wren's birth dates")),
        ("Compare Ada's and Grace's birth dates.", ("Ada's birth dates", "Grace's birth dates")),
        ("Compare the price of the boat and the yard's price.", ("the price of the boat", "the yard's price")),
        (
            "Compare the depth of the old basin with the depth of the new basin.",
            ("the depth of the old basin", "the depth of the new basin"),
        ),
        ("Compare fees and the harbour's rules.", ("fees", "the harbour's rules")),
        ("Which costs more: the works on the bridge or a year's berth?", ("the works on the bridge", "a year's berth")),
        ("Which basin is deeper, the old one or the new one?", ("the old one", "the new one")),
        ("연차와 병가의 차이는 무엇인가?", ("연차", "병가")),
        ("Is water or oil used for cleaning?", None),
        ("Compare the findings.", None),
    ],
)
def test_the_sides_of_a_comparison_are_read_from_its_words(question: str, sides: tuple[str, str] | None) -> None:
    assert compared_sides(question) == sides


@pytest.mark.parametrize("kept", [1, 2])
def test_a_plan_that_was_cut_off_is_used_as_far_as_it_is_whole(kept: int) -> None:
    steps = [{"tool": "query_rag_with_context", "arguments": {"question": f"How is filter {n} kept?"}} for n in "ab"]
    whole = json.dumps({"reasoning": "because", "steps": [*steps, steps[0]]})
    cut = whole[: whole.rindex('{"tool"') + 20] if kept == 2 else whole[: whole.index('{"tool"', 60) + 20]
    plan = read_plan(cut, TOOLS)
    assert [step.arguments for step in plan.steps] == [step["arguments"] for step in steps[:kept]]
    assert "cut off" in plan.repairs[0]
    assert read_plan(whole, TOOLS).repairs == ()


@pytest.mark.parametrize("text", ['{"reasoning": "beca', '{"steps": [{"tool": "que', "", "no", '{"steps": []}'])
def test_a_plan_without_a_whole_step_is_none(text: str) -> None:
    with pytest.raises(PlanInvalid):
        read_plan(text, TOOLS)


def test_circles_and_unknown_dependencies_are_cut() -> None:
    steps = [
        {"id": "a", **ASK, "depends_on": ["b"]},
        {"id": "b", **step("generate_analysis", ["a", "ghost"], question="Why?")},
    ]
    plan = mended(steps)
    placed: set[str] = set()
    for each in plan.steps:
        assert set(each.depends_on) <= placed
        placed.add(each.id)
    assert plan.repairs


def test_steps_given_in_any_order_are_put_behind_what_they_depend_on() -> None:
    late = {"id": "late", **step("generate_analysis", ["early"], question="Why?")}
    plan = mended([late, {"id": "early", **ASK}])
    assert shape(plan) == [("s1", "query_rag_with_context", ()), ("s2", "generate_analysis", ("s1",))]
    assert plan.repairs == ()


def test_two_steps_of_one_name_are_refused() -> None:
    with pytest.raises(PlanInvalid, match="'s2'"):
        parse_plan({"steps": [{**ASK, "id": "s2"}, ASK]}, TOOLS)


def test_a_step_behind_one_that_was_dropped_waits_for_nothing() -> None:
    lost = {**step("generate_summary", topic={"from": "s9"}), "id": "s1"}
    written = parse_plan({"steps": [lost, {**ASK, "id": "s2", "depends_on": ["s1"]}]}, TOOLS)
    plan = repair(written, QUESTION, TOOLS, 6, RULES_OF_FORM)
    for place, each in enumerate(plan.steps):
        assert set(each.depends_on) <= {earlier.id for earlier in plan.steps[:place]}


def test_references_in_arguments_follow_their_steps() -> None:
    plan = mended(
        [{"id": "x", **ASK}, {"id": "y", **step("generate_summary", topic="filter", earlier=[{"from": "x"}])}]
    )
    assert plan.steps[1].arguments["earlier"] == [{"from": "s1"}]
    assert plan.steps[1].depends_on == ("s1",)


def test_repeated_steps_and_those_over_the_limit_are_dropped() -> None:
    others = [step("query_rag_with_context", question=f"How often is the filter cleaned in {n}?") for n in range(9)]
    plan = mended([ASK, ASK, ASK, *others], max_steps=4)
    assert len(plan.steps) == 4
    assert any("repeated" in text for text in plan.repairs)
    assert any("limit of 4" in text for text in plan.repairs)


def test_steps_that_ask_for_something_else_are_dropped() -> None:
    plan = mended([ASK, step("query_rag_with_context", question="Who invented poetry?")])
    assert [each.arguments for each in plan.steps] == [{"question": QUESTION}]
    assert plan.repairs


def test_an_analysis_that_only_repeats_the_question_is_dropped_unless_the_question_wants_one() -> None:
    steps = [step("generate_analysis", question=QUESTION), ASK]
    assert [each.tool for each in mended(steps).steps] == ["query_rag_with_context"]
    wanted = "Analyse how often the filter is cleaned."
    tools = [each.tool for each in mended(steps, wanted).steps]
    assert tools == ["query_rag_with_context", "generate_analysis"]


def test_a_summary_that_was_asked_for_is_in_the_plan() -> None:
    plan = mended([ASK], "Summarise how often the filter is cleaned.")
    assert [each.tool for each in plan.steps] == ["query_rag_with_context", "generate_summary"]
    assert plan.steps[1].depends_on == ("s1",)


def test_tools_that_do_not_exist_are_dropped() -> None:
    plan = mended([ASK, step("delete_everything", target="all")])
    assert [each.tool for each in plan.steps] == ["query_rag_with_context"]
    assert any("delete_everything" in text for text in plan.repairs)


@pytest.mark.parametrize(
    ("question", "tools"),
    [
        ("When is it cleaned?", ["query_rag_with_context"]),
        ("Summarise the manual.", ["query_rag_with_context", "generate_summary"]),
        ("What are the pros and cons of it?", ["query_rag_with_context", "generate_analysis"]),
    ],
)
def test_rules_plan_what_the_words_of_the_question_ask_for(question: str, tools: list[str]) -> None:
    plan = rule_plan(question, TOOLS, 6, "no model")
    assert [each.tool for each in plan.steps] == tools
    assert plan.repairs[0] == "no model"


def test_a_pasted_text_is_not_looked_through_for_sides() -> None:
    assert compared_sides("compare the pump with the boiler") is not None
    assert compared_sides("compare the pump with the boiler " + "x" * MAX_COMPARISON_CHARS) is None


@pytest.mark.parametrize(
    ("question", "tool", "arguments"),
    [
        ("What does page 12 of the handbook say?", "doc_read", {"page": "12"}),
        ("What stands on page iv?", "doc_read", {"page": "iv"}),
        ("12쪽에는 무엇이 있습니까?", "doc_read", {"page": "12"}),
        ('Where does it say "force majeure"?', "kb_grep", {"pattern": "force majeure"}),
        ("What does the error E-1042 mean?", "kb_grep", {"pattern": "E-1042"}),
        ("What do pages 3 to 5 say?", "query_rag_with_context", {}),
        ("What was on the page I read?", "query_rag_with_context", {}),
        ("How many pages has the handbook of 2024?", "query_rag_with_context", {}),
    ],
)
def test_what_names_a_page_or_an_exact_text_is_looked_up_there(
    question: str, tool: str, arguments: dict[str, str]
) -> None:
    plan = mended([step("query_rag_with_context", question=question)], question)
    assert [(each.tool, each.arguments) for each in plan.steps] == [(tool, {"question": question, **arguments})]


def test_pages_and_texts_that_the_question_does_not_name_are_dropped() -> None:
    strays = [step("doc_read", question=QUESTION, page="7"), step("kb_grep", question=QUESTION, pattern="E-1")]
    plan = mended([ASK, *strays])
    assert [each.tool for each in plan.steps] == ["query_rag_with_context"]
    assert any("does not name" in told for told in plan.repairs)
