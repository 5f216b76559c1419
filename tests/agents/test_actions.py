"""The actions, called as tools, and by a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from readahead_agents.actions.doc_read import doc_read
from readahead_agents.actions.kb_grep import kb_grep
from readahead_agents.actions.result import ActionResult
from readahead_agents.actions.writing import ActionContext
from readahead_agents.agent import KnowledgeAgent
from readahead_agents.answering.answer import AnswerOptions
from readahead_agents.answering.held_pack import HeldPack
from readahead_agents.events import PlanMade, StepStarted
from readahead_agents.fixed_evidence import FixedEvidenceSource, passage
from readahead_agents.llm.base import Message
from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_agents.mcp.actions_server import actions_server
from readahead_agents.mcp.toolset import McpToolset, ToolOutcome
from readahead_agents.profile import UserProfile
from tests.agents.parts import (
    ACTIONS,
    FILTER,
    PRICE,
    SETTINGS,
    WARRANTY,
    collect,
    ending,
    of,
    planning,
    pump_kb,
    step,
)

QUESTION = "How often is the filter of the pump cleaned?"
COMPARE = "Compare what the pump costs with the warranty of the mixer."
TABLE = "Limits of the zones:\nZone | Noise | Hours\nA | 40 dB | 7 to 19\nB | 55 dB | 6 to 22\nMeasured at the fence."
PACK = HeldPack((Message("system", "The documents below."), Message("user", f"{FILTER} {PRICE}")), 30)


async def call(context: ActionContext, name: str, **arguments: Any) -> ToolOutcome:
    async with McpToolset(actions_server(context)) as toolset:
        return await toolset.call_tool(name, arguments, timeout_s=10)


async def names(context: ActionContext) -> list[str]:
    async with McpToolset(actions_server(context)) as toolset:
        return [tool.name for tool in await toolset.list_tools()]


def result(outcome: ToolOutcome) -> ActionResult:
    assert outcome.ok, outcome.text
    return ActionResult.model_validate(outcome.data)


async def test_a_pack_and_a_profile_bring_the_tools_that_need_them() -> None:
    llm = ScriptedLanguageModel([FILTER])
    assert await names(ActionContext(llm, pump_kb(), SETTINGS)) == ACTIONS
    asked = AnswerOptions(profile=UserProfile())
    more = await names(ActionContext(llm, pump_kb(), SETTINGS, asked, PACK))
    assert set(more) - set(ACTIONS) == {"query_cag", "generate_profile_based_response"}


async def test_a_question_on_the_pack_begins_with_its_messages_as_they_are() -> None:
    llm = ScriptedLanguageModel([FILTER])
    told = result(await call(ActionContext(llm, pump_kb(), SETTINGS, pack=PACK), "query_cag", question=QUESTION))
    assert told.text == FILTER and told.citations[0].document == "pump.pdf"
    assert llm.calls[0].messages[:2] == PACK.messages


@pytest.mark.parametrize(
    ("tool", "argument"), [("generate_analysis", "question"), ("generate_summary", "topic"), ("query_cag", "question")]
)
async def test_what_is_written_of_the_whole_documents_begins_with_the_pack(tool: str, argument: str) -> None:
    llm = ScriptedLanguageModel([FILTER])
    told = result(await call(ActionContext(llm, pump_kb(), SETTINGS, pack=PACK), tool, **{argument: QUESTION}))
    assert told.text == FILTER and told.citations
    *begin, asked = llm.calls[0].messages
    assert tuple(begin) == PACK.messages and QUESTION in asked.content and FILTER not in asked.content


SAID = (Message("user", "What does the filter cost?"), Message("assistant", "It costs 12 crowns."))


@pytest.mark.parametrize("history", [(), SAID, (Message("system", "Be polite."), *SAID)])
async def test_a_run_on_a_pack_asks_and_merges_there_behind_what_was_said(history: Sequence[Message]) -> None:
    steps = [
        step("query_rag_with_context", question="What the pump costs, summed up?"),
        step("generate_summary", ["s1"], topic="the pump"),
    ]
    replies = {"What the pump costs, summed": PRICE, "sum up": FILTER, "in full": PRICE}
    llm = ScriptedLanguageModel(planning(steps, replies))
    question = "Sum up what the pump costs."
    events = await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS, PACK).run(question, history))
    assert [each.tool for each in of(events, StepStarted)] == ["query_cag", "generate_summary"]
    assert ending(events).answer == PRICE and ending(events).usage.calls == 4
    for each in llm.calls[1:]:
        assert each.messages[: len(PACK.messages)] == PACK.messages
    *before, asked = llm.calls[-1].messages
    assert tuple(before) == (*PACK.messages, *(turn for turn in history if turn.role != "system"))
    assert asked.content.index(PRICE) < asked.content.index(question)
    assert asked.content.startswith("Be polite.") == (len(history) > len(SAID))


async def test_a_run_may_answer_from_the_pack_alone() -> None:
    llm = ScriptedLanguageModel(planning([step("query_cag", question=QUESTION)], {}))
    events = await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS, PACK).run(QUESTION))
    assert [each.tool for each in of(events, StepStarted)] == ["query_cag"]  # evidence enough: nothing is added
    assert ending(events).citations


async def test_what_a_reader_knows_stands_behind_the_documents_and_the_question() -> None:
    prompts = []
    for profile in (UserProfile(expertise="beginner", detail="low"), UserProfile(expertise="expert", detail="high")):
        llm = ScriptedLanguageModel([FILTER])
        context = ActionContext(llm, pump_kb(), SETTINGS, AnswerOptions(profile=profile))
        told = result(await call(context, "generate_profile_based_response", question=QUESTION))
        assert told.text == FILTER and told.citations
        prompts.append(llm.calls[0].prompt)
    head, *_ = prompts[0].split("Answer in one or two sentences")
    assert QUESTION in head and FILTER in head
    assert prompts[1].startswith(head)
    assert "expert" in prompts[1][len(head) :]


async def test_tables_come_as_rows_without_any_model() -> None:
    source = FixedEvidenceSource(
        [passage("zones.pdf", 4, TABLE), passage("a.pdf", 1, "Zone limits of noise are strict.")]
    )
    llm = ScriptedLanguageModel(["no"])
    context = ActionContext(llm, source, SETTINGS)
    told = result(await call(context, "extract_table", question="Which noise limits have the zones?"))
    [table] = told.tables
    assert (table.document, table.page) == ("zones.pdf", 4)
    assert table.columns == ("Zone", "Noise", "Hours")
    assert table.rows == (("A", "40 dB", "7 to 19"), ("B", "55 dB", "6 to 22"))
    assert "B | 55 dB | 6 to 22" in told.text and told.citations and not llm.calls


async def test_pages_without_a_table_are_told_as_such() -> None:
    told = result(
        await call(
            ActionContext(ScriptedLanguageModel(["no"]), pump_kb(), SETTINGS), "extract_table", question=QUESTION
        )
    )
    assert not told.covered and "no table" in told.text and not told.tables


SIDES = ["what the pump costs", "the warranty of the mixer"]
ZONES = FixedEvidenceSource([passage("zones.pdf", 4, TABLE), passage("gate.pdf", 1, "The noise of a gate is low.")])


@pytest.mark.parametrize("written", [PRICE, WARRANTY, "Both are fine machines.", f"{PRICE} {WARRANTY}"])
async def test_a_comparison_cites_all_sides_whatever_the_model_wrote(written: str) -> None:
    source = pump_kb()
    context = ActionContext(ScriptedLanguageModel([written]), source, SETTINGS)
    told = result(await call(context, "compare", question=COMPARE, sides=SIDES))
    assert {citation.document for citation in told.citations} == {"pump.pdf", "mixer.pdf"}
    assert any("pump" in query and "mixer" not in query for query in source.queries)
    for citation in told.citations:
        assert told.text[citation.answer_start : citation.answer_end].strip(' “”"\n') in f"{PRICE} {WARRANTY}"
    assert "240 crowns" in told.text and "24 months" in told.text  # the values, as the passages give them


async def test_each_side_of_a_comparison_is_written_of_what_was_found_for_it_alone() -> None:
    llm = ScriptedLanguageModel(["The noise limit in zone A is 55 dB."])
    context = ActionContext(llm, ZONES, SETTINGS)
    told = result(
        await call(context, "compare", question="Compare the zones.", sides=["noise in zone A", "noise in zone B"])
    )
    shown = {"A" if "zone A (" in call.prompt or "zone A?" in call.prompt else "B": call.prompt for call in llm.calls}
    assert "Zone: A; Noise: 40 dB" in shown["A"] and "55 dB" not in shown["A"]
    assert "Zone: B; Noise: 55 dB" in shown["B"] and "40 dB" not in shown["B"]
    first, second = told.text.split("\n\nNoise in zone B: ")
    assert "40 dB" in first and "55 dB" not in first, "the value of the other side is not taken for this one's"
    assert "55 dB" in second


async def test_a_comparison_gives_values_where_there_are_any() -> None:
    source = FixedEvidenceSource(
        [
            passage("report.pdf", 1, "The span of the footbridge is looked at."),
            passage("report.pdf", 2, "The footbridge has a span of 22.4 m over the river Wendle since 1987."),
            passage("race.pdf", 1, "The record of the race is kept."),
            passage("race.pdf", 2, "The record of the race stands at 171 minutes since the summer of the storm."),
        ]
    )
    context = ActionContext(ScriptedLanguageModel(["Both are long."]), source, SETTINGS)
    sides = ["the span of the footbridge", "the record of the race"]
    told = result(await call(context, "compare", question="Compare them.", sides=sides))
    assert "22.4 m" in told.text and "171 minutes" in told.text
    assert "looked at" not in told.text and "is kept" not in told.text


async def test_a_statement_that_says_little_of_its_side_is_quoted_as_the_closest() -> None:
    texts = ["The pump costs 240 crowns.", "Ada Lark signed a contract for 12 records in spring.", "Launches are rare."]
    source = FixedEvidenceSource([passage("found.pdf", page, text) for page, text in enumerate(texts, 1)], floor=0.0)
    context = ActionContext(ScriptedLanguageModel(["Both."]), source, SETTINGS)
    sides = ["what the pump costs", "Ada Lark's first rocket launches"]
    told = result(await call(context, "compare", question="Compare them.", sides=sides))
    pump, launches = told.text.split("\n\nAda Lark")
    assert "The closest passage, quoted from" in launches and "The closest" not in pump


async def test_a_side_that_the_documents_do_not_tell_of_is_named() -> None:
    llm = ScriptedLanguageModel(planning([step("compare", sides=["the pump", "zeppelin"])], {}, default=PRICE))
    last = ending(await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run("Compare the pump with the zeppelin.")))
    assert "The documents do not tell of the zeppelin." in last.answer
    assert last.covered and {citation.document for citation in last.citations} == {"pump.pdf"}


async def test_a_summary_beside_a_comparison_takes_no_side_away() -> None:
    steps = [step("compare", question=COMPARE, sides=SIDES), step("generate_summary", topic="the mixer")]
    replies = {"sum up": WARRANTY, "What about what the pump": f"{PRICE} [S1]", "What about the warranty": WARRANTY}
    llm = ScriptedLanguageModel(planning(steps, replies))
    last = ending(await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(f"Summarise this. {COMPARE}")))
    assert {citation.document for citation in last.citations} == {"pump.pdf", "mixer.pdf"}
    assert last.answer.startswith("What the pump costs: The pump costs") and "[S1]" not in last.answer
    cited = [last.answer[each.answer_start : each.answer_end] for each in last.citations]
    assert [text.split()[0] for text in cited] == ["The"] * 3


@pytest.mark.parametrize("sides", [[], ["pump"], ["x", "y"], SIDES])
async def test_a_weak_comparison_is_given_its_sides_and_nothing_beside_it(sides: list[str]) -> None:
    steps = [step("query_rag_with_context", question="What does the pump cost?"), step("compare", sides=sides)]
    llm = ScriptedLanguageModel(planning(steps, {}, default=f"{PRICE} {WARRANTY}"))
    events = await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(COMPARE))
    [made] = of(events, PlanMade)
    [only] = made.plan.steps
    assert only.tool == "compare" and only.arguments["question"] == COMPARE
    assert only.arguments["sides"] == SIDES
    assert {citation.document for citation in ending(events).citations} == {"pump.pdf", "mixer.pdf"}


async def test_a_page_is_read_and_an_exact_text_found_whatever_a_search_would_give() -> None:
    source = pump_kb()
    context = ActionContext(ScriptedLanguageModel([PRICE]), source, SETTINGS)
    read = await doc_read(context, "What stands on page 5?", "5")
    assert {passage.page for passage in read.evidence} == {5} and not source.queries
    assert read.citations[0].page == 5
    context = ActionContext(ScriptedLanguageModel([WARRANTY]), source, SETTINGS)
    held = await kb_grep(context, "What is said of the pump?", "24 months")
    assert held.evidence[0].document == "mixer.pdf"
    nowhere = await doc_read(context, "What stands on page 99?", "99")
    assert not nowhere.covered and not nowhere.evidence


async def test_a_page_of_a_named_document_is_read_there_alone_or_said_to_be_missing() -> None:
    source = FixedEvidenceSource([passage("pump-manual.pdf", 2, PRICE), passage("mixer-manual.pdf", 2, WARRANTY)])
    context = ActionContext(ScriptedLanguageModel([WARRANTY]), source, SETTINGS)
    read = await doc_read(context, "What does page 2 of the mixer manual say?", "2")
    assert {each.document for each in read.evidence} == {"mixer-manual.pdf"}
    missing = await doc_read(context, "What does page 7 of the mixer manual say?", "7")
    assert "There is no page 7 in mixer-manual.pdf." in missing.text and not missing.covered


async def test_a_call_with_wrong_arguments_is_told_so_in_words() -> None:
    context = ActionContext(ScriptedLanguageModel([]), pump_kb(), SETTINGS)
    one = await call(context, "compare", question=COMPARE, sides=["the pump"])
    assert not one.ok and "`sides`: list should have at least 2 items" in one.text and "pydantic" not in one.text
    other = await call(context, "kb_grep", question=QUESTION, text="12")
    assert other.text == (
        "kb_grep can't take these arguments: `text`: no such argument; `pattern`: field required. "
        "It takes `question`, `pattern`."
    )


async def test_a_comparison_that_the_question_does_not_ask_for_is_said_to_be_dropped() -> None:
    llm = ScriptedLanguageModel(planning([step("compare", question=QUESTION, sides=["one", "two"])], {}))
    [made] = of(await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(QUESTION)), PlanMade)
    assert [each.tool for each in made.plan.steps] == ["query_rag_with_context"]
    told = " ".join(made.plan.repairs)
    assert "nothing is compared" in told and "given its sides" not in told
