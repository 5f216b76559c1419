"""Which sentences of a model are shown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from readahead_agents.answering.answer import answer
from readahead_agents.answering.denial import denies_alike
from readahead_agents.answering.quotation import Quotation, best_units
from readahead_agents.answering.together import excludes_more
from readahead_agents.answering.wording import ENGLISH
from readahead_agents.events import Token
from readahead_agents.fixed_evidence import FixedEvidenceSource, passage
from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_agents.loops import loops
from readahead_retrieval.types import Evidence
from tests.agents.parts import FILTER, SETTINGS, collect, ending, of, pump_kb

QUESTION = "How often is the filter of the pump cleaned?"
RULES = (
    "Dogs are never allowed in the reading room. The deck is 2.6 m wide. The span of the bridge is 22.4 m; "
    "the ramp before it measures 3 m.\n"
    "Code | Meaning | What to do\nE07 | Door open | Close the door\nE12 | High pressure | Clean the condenser"
)


async def said(reply: str, question: str, text: str = RULES) -> tuple[str, str]:
    """What is shown of the model's own words, and what is quoted."""
    source = FixedEvidenceSource([passage("rules.pdf", 1, text)])
    events = await collect(answer(ScriptedLanguageModel([reply]), source, question, [], SETTINGS))
    ending(events)
    tokens = of(events, Token)
    own, quoted = ([token.text for token in tokens if token.quoted is kind] for kind in (False, True))
    return "".join(own), "".join(quoted)


async def quoted(question: str, passages: Sequence[Evidence]) -> str:
    source = FixedEvidenceSource(passages)
    return (await Quotation.of(source, best_units(question, passages), ENGLISH, ENGLISH.quoted)).text


@pytest.mark.parametrize(
    "reply",
    [
        "Every 30 days the filter of the pump is cleaned with water.",
        "The pump's filter is cleaned with water, every 30 days.\n\nA new filter costs 12 crowns.",
        "Here is the answer:\n- The filter of the pump is cleaned every 30 days.",
    ],
)
async def test_a_supported_paraphrase_passes_untouched(reply: str) -> None:
    events = await collect(answer(ScriptedLanguageModel([reply]), pump_kb(), QUESTION, [], SETTINGS))
    last = ending(events)
    assert last.answer == reply
    assert not last.quoted
    assert last.citations


@pytest.mark.parametrize(
    "reply",
    [
        "The span of the bridge is 2.6 m.",
        "The span of the bridge is 3 m.",
        "The span of the bridge with the ramp is 22.4 crowns.",
        "The span of the bridge is 24.2 m.",
    ],
)
async def test_a_figure_from_beside_the_matter_is_replaced_by_the_statement(reply: str) -> None:
    own, quoted = await said(reply, "What is the span of the bridge?")
    assert own == ""
    assert "22.4 m" in quoted


async def test_what_the_passage_denies_is_not_affirmed() -> None:
    own, quoted = await said("Dogs are allowed in the reading room.", "What is the rule for dogs?")
    assert own == ""
    assert "never" in quoted


RECORD = (
    "Though some were accused, only one keeper of the lock has ever been fined and no keeper of the lock has been "
    "removed from office. Boats may stay overnight, except in winter, and dogs are not allowed except on a lead."
)


@pytest.mark.parametrize(
    ("reply", "true"),
    [
        ("Only one keeper of the lock has ever been removed from office.", False),
        ("The keeper was fined, but only one keeper of the lock has ever been removed from office.", False),
        ("A keeper of the lock has been removed from office.", False),
        ("The lock has only one keeper in office.", False),
        ("No keeper of the lock has ever been fined.", False),
        ("Only one keeper of the lock has ever been fined.", True),
        ("One keeper of the lock has been fined, and no keeper of the lock has been removed from office.", True),
    ],
)
def test_each_clause_denies_what_the_passage_denies_and_nothing_else(reply: str, true: bool) -> None:
    stood = RECORD.partition(". ")[0]
    assert (denies_alike(reply, stood) and not excludes_more(reply, stood)) is true


async def test_an_only_of_one_clause_does_not_turn_what_another_denies() -> None:
    false = "The lock can remove its keeper, but only one keeper of the lock has ever been removed from office."
    own, quoted = await said(false, "Who can remove the keeper of the lock?", RECORD)
    assert own == ""
    assert "no keeper of the lock has been removed" in quoted


@pytest.mark.parametrize(
    ("reply", "true"),
    [
        ("Dogs are allowed.", False),
        ("Dogs are allowed only on a lead.", True),
        ("Boats may not stay overnight.", False),
    ],
)
def test_an_exception_is_no_denial_of_what_is_said_beside_it(reply: str, true: bool) -> None:
    assert denies_alike(reply, RECORD.partition(". ")[2]) is true


@pytest.mark.parametrize(
    "reply",
    [
        "How often is the filter of the pump cleaned? The filter of the pump is cleaned often.",
        "Text: The filter of the pump is cleaned every 30 days with water.",
        "Question: what is the filter of the pump?",
    ],
)
async def test_echoes_of_the_question_and_the_prompt_are_not_shown(reply: str) -> None:
    own, quoted = await said(reply, QUESTION, FILTER)
    assert own == ""
    assert FILTER in quoted


async def test_a_wrong_sentence_behind_a_right_one_is_left_out_and_told() -> None:
    reply = f"{FILTER} It was invented in 1871 by Otto Pump."
    last = ending(await collect(answer(ScriptedLanguageModel([reply]), pump_kb(), QUESTION, [], SETTINGS)))
    assert last.answer == FILTER
    assert any("1 sentence" in note for note in last.notes)


async def test_supported_sentences_are_shown_before_the_model_has_ended() -> None:
    reply = f"{FILTER} The pump costs 240 crowns. {'Bananas ' * 50}"
    events = await collect(answer(ScriptedLanguageModel([reply]), pump_kb(), QUESTION, [], SETTINGS))
    assert [token.text for token in of(events, Token)][:2] == [FILTER, " The pump costs 240 crowns."]


async def test_a_model_in_a_loop_is_cut_at_the_model() -> None:
    llm = ScriptedLanguageModel(["The " + "ship-" * 100])
    last = ending(await collect(answer(llm, pump_kb(), QUESTION, [], SETTINGS)))
    assert llm.abandoned == 1
    assert FILTER in last.answer


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("the boat is the boat is the boat is the boat is ", True),
        ("2500000000000000000000000000000000000", True),
        ("costs 1000000 crowns", False),
        ("| --- | --- | --- | --- | --- | --- | --- |", False),
        ("no, no, no, no", False),
    ],
)
def test_a_loop_is_told_from_figures_and_rules_of_tables(text: str, loop: bool) -> None:
    assert loops(text) is loop


async def test_the_row_with_the_asked_code_is_quoted_with_its_header() -> None:
    text = await quoted("What should I do when the controller shows E12?", [passage("rules.pdf", 1, RULES)])
    assert "“Code: E12; Meaning: High pressure; What to do: Clean the condenser”" in text
    assert "E07" not in text


async def test_the_first_row_of_a_passage_that_begins_inside_a_table_is_quoted_too() -> None:
    rows = (
        "E30 | Clock battery empty | Replace the CR2032; times in the log are marked with a star\n"
        "AH | Room too warm | Starts 45 minutes after the limit is passed\n"
        "AL | Room too cold | Starts 5 minutes after the limit is passed"
    )
    text = await quoted("What does E30 mean?", [passage("rules.pdf", 1, rows)])
    assert "E30 · Clock battery empty" in text
    assert "Room too" not in text


async def test_both_halves_of_a_question_are_quoted() -> None:
    passages = [
        passage("a.pdf", 1, "The harbour master is Ines Calloway."),
        passage("b.pdf", 2, "Tea is at four. The coxswain of the lifeboat is Morwen Hale."),
    ]
    text = await quoted("Who is harbour master, and who is coxswain of the lifeboat?", passages)
    assert "Ines Calloway" in text
    assert "Morwen Hale" in text


async def test_a_quoted_document_cannot_put_links_or_markup_into_an_answer() -> None:
    links = "[terms](https://evil.example) ![x](//evil.example/y.png) <script>alert(1)</script>"
    text = f"The valve opens at 44 bar, see {links}."
    source = FixedEvidenceSource([passage("<img src=x>[a](javascript:alert(1)).pdf", 1, text)])
    events = await collect(
        answer(
            ScriptedLanguageModel(["It opens at 12 bar."]),
            source,
            "At what pressure does the valve open?",
            [],
            SETTINGS,
        )
    )
    last = ending(events)
    assert last.quoted and "44 bar" in last.answer and last.citations
    for live in ("](https:", "](//", "](javascript:", "<script", "<img"):
        assert live not in last.answer


@pytest.mark.parametrize(
    ("question", "true", "false"),
    [
        ("At what pressure does valve Z9 open?", "Valve Z9 opens at 44 bar.", "The valve Z9 opens at 12 bar."),
        ("At what pressure does valve Z9 close?", "It closes at 12 bar.", "The valve Z9 closes at 44 bar."),
        ("What does the pump cost?", "The pump costs 240 crowns.", "The pump costs 12 crowns."),
    ],
)
async def test_a_figure_of_the_other_half_of_a_statement_is_not_taken(question: str, true: str, false: str) -> None:
    text = (
        "Valve Z9 opens at 44 bar and closes at 12 bar. The pump costs 240 crowns, and a new filter costs 12 crowns. "
        "The pressure lies between 5 and 60 bar."
    )
    assert (await said(true, question, text))[0] == true
    assert (await said(false, question, text))[0] == ""
    whole = "Valve Z9 opens at 44 bar and closes at 12 bar."
    assert (await said(whole, "When does valve Z9 open and close?", text))[0] == whole


async def test_a_refusal_of_something_else_gives_way_to_the_closest_passage() -> None:
    text = "Tighten the screws of the cover with 0.8 Nm. The evaporator is made of copper."
    reply = "The text does not provide any information about the type of material used for the evaporator."
    own, quoted = await said(reply, "What torque do the cover screws need?", text)
    assert own == "" and "0.8 Nm" in quoted


TRAVEL = (
    "3. Transport\n3.1 Trains come first.\n"
    "3.2 Second class is the rule. First class is paid when the train ride is longer than four hours.\n"
    "3.3 The use of a private car is paid by the kilometre. Alcohol is not paid.\n"
    "7.1 Claims are handed in within 30 days after the return."
)


@pytest.mark.parametrize(
    ("question", "false"),
    [
        ("When is first class paid?", "Alcohol is paid when the train ride is longer than four hours."),
        ("When is first class paid?", "First class is paid only when the train ride is longer than four hours."),
        (
            "Until when must a claim be handed in?",
            "A claim must be handed in within 30 days after the return of the claim.",
        ),
    ],
)
async def test_a_sentence_that_one_statement_does_not_bear_out_as_a_whole_is_replaced(
    question: str, false: str
) -> None:
    own, quoted = await said(false, question, TRAVEL)
    assert own == ""
    assert quoted


@pytest.mark.parametrize(
    ("question", "true"),
    [
        ("When is first class paid?", "First class is paid when the train ride is longer than four hours."),
        ("What is the rule for first class?", "Second class is the rule; first class is paid when the ride is longer."),
    ],
)
async def test_what_a_statement_and_the_one_beside_it_say_is_shown(question: str, true: str) -> None:
    assert (await said(true, question, TRAVEL))[0] == true


async def test_marks_stay_only_around_what_a_passage_has_word_for_word() -> None:
    text = "The probes of the controller are covered for 12 months. The controller is covered for 36 months."
    question = "How long are the probes covered?"
    reply = "“The probes are covered for 12 months. They are covered for 12 months.”"
    assert await said(reply, question, text) == ("The probes are covered for 12 months.", "")
    verbatim = 'It says "the probes of the controller are covered for 12 months".'
    assert (await said(verbatim, question, text))[0] == verbatim


@pytest.mark.parametrize(
    ("again", "shown"),
    [
        (" It is cleaned every 30 days.", ""),
        (" It is cleaned with water.", ""),
        (" The pump costs 240 crowns.", " The pump costs 240 crowns."),
    ],
)
async def test_a_sentence_that_only_says_an_earlier_one_again_is_left_out(again: str, shown: str) -> None:
    events = await collect(answer(ScriptedLanguageModel([FILTER + again]), pump_kb(), QUESTION, [], SETTINGS))
    last = ending(events)
    assert last.answer == FILTER + shown
    assert last.notes == ()


async def test_the_words_around_a_quotation_are_not_taken_from_the_model() -> None:
    reply = "Quoted from the pump:\nThe filter of the pump is cleaned every 30 days with water."
    own, quoted = await said(reply, QUESTION, FILTER)
    assert (own, quoted) == (FILTER, "")


ROLES = (
    "Mara Lind is known for her roles as Doric in the radio series Saltwind, Ornis in the stage play Winter of Stones, "
    "Fenna Zandt in Olav Brek's Second Harbour, and Wraith in the film The Moth and the Lamp. She lives by the sea."
)
CREW = "The harbour master is Ines Calloway and her deputy is Tobias Wren."


@pytest.mark.parametrize(
    ("question", "reply", "true", "text"),
    [
        ("Which role was played in The Moth and the Lamp?", "It is Fenna Zandt.", False, ROLES),
        ("Which role was played in The Moth and the Lamp?", "The role in The Moth was Fenna Zandt.", False, ROLES),
        ("Which role was played in The Moth and the Lamp?", "The role in the film The Moth was Wraith.", True, ROLES),
        (
            "Which role did she play in Saltwind and which in Winter?",
            "Doric in Saltwind, Ornis in Winter.",
            True,
            ROLES,
        ),
        (
            "Which role did she play in Saltwind and which in Winter?",
            "Ornis in Saltwind, Doric in Winter.",
            False,
            ROLES,
        ),
        ("Who is Mara Lind?", "Mara Lind is known for her role as Ornis in Winter of Stones.", True, ROLES),
        ("Who is the deputy?", "The deputy is Ines Calloway.", False, CREW),
        ("Who is the deputy?", "The deputy is Tobias Wren.", True, CREW),
        ("Who is the harbour master?", "The harbour master is Tobias Wren.", False, CREW),
        ("Who is the harbour master?", "Ines Calloway is the harbour master.", True, CREW),
    ],
)
async def test_what_stands_in_one_pair_of_a_sentence_is_not_taken_for_another(
    question: str, reply: str, true: bool, text: str
) -> None:
    own, quoted = await said(reply, question, text)
    assert own == (reply if true else "")
    assert true or quoted


async def test_a_question_of_two_parts_is_not_answered_by_one_clause_of_two_statements() -> None:
    text = (
        "The C40 weighs 410 g and keeps a walk-in room cold.\n"
        "Code | Meaning\nE30 | Clock battery empty\nE12 | High pressure"
    )
    question = "What does the C40 keep cold and what does E30 mean?"
    own, _ = await said("The C40 keeps a walk-in room cold by a battery.", question, text)
    assert own == ""
    true = "The C40 keeps a walk-in room cold. E30 means that the clock battery is empty."
    assert (await said(true, question, text))[0] == true
