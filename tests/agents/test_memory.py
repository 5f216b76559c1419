"""Follow-up questions are made to stand by themselves, and of a conversation a prompt holds what its budget allows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from readahead_agents.agent import KnowledgeAgent
from readahead_agents.answering.answer import AnswerOptions, answer, not_covered
from readahead_agents.answering.pack_answer import answer_from_pack
from readahead_agents.errors import LanguageModelUnavailable
from readahead_agents.events import Answered, HistoryRead
from readahead_agents.llm.base import Message
from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_agents.memory.follow_up import joined, leans
from readahead_agents.memory.standalone import Standalone, standalone
from readahead_agents.profile import UserProfile
from tests.agents.parts import FILTER, SETTINGS, WARRANTY, collect, ending, of, planning, pump_kb, step

ASKED = "What is the warranty of the mixer?"
SAID = (Message("user", ASKED), Message("assistant", "It is 24 months."))


def turns(*texts: str) -> list[Message]:
    return [Message("assistant" if number % 2 else "user", text) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    "question",
    [
        "And what should I do then?",
        "What about zone C?",
        "Who makes it?",
        "Why?",
        "How much will that cost to mend?",
        "Which one is longer?",
        "그럼 어린이 회원은요?",
        "거기 이용료는 얼마인가요?",
        "60일이 넘으면요?",
        "And the other one, P2?",
        "And what is the limit in Berlin?",  # a limit of what was spoken of
        "And how high is the fee in the harbour of Saltmere?",
        "And how much does it cost on the Marigold?",
        "And who is the lock keeper?",
    ],
)
def test_a_question_that_points_back_leans_on_the_turns_before(question: str) -> None:
    assert leans(question)


@pytest.mark.parametrize(
    "question",
    [
        "Which file system must the USB stick for the log have?",
        "How often does the C40 log a reading, and for how long does it keep them?",
        "Who is the coxswain of the lifeboat?",
        "Is there a fine for welding without a permit?",
        "선정위원회의 위원 임기는 얼마입니까?",
        "And how much does the C40 weigh?",
        "So what torque do the cover screws of the C40 need?",
        "But does the Marigold sail in winter?",
    ],
)
def test_a_question_that_says_what_it_is_about_stands_by_itself(question: str) -> None:
    assert not leans(question)


def test_a_chain_of_follow_ups_goes_back_to_the_question_that_stands() -> None:
    history = turns(
        "Who wrote the report on pumps?", "Dana Ross.", ASKED, "24 months.", "And of the pump?", "30 months."
    )
    assert joined("And in winter?", history) == f"{ASKED} And of the pump? And in winter?"


def test_a_name_that_only_the_answer_brought_in_goes_along() -> None:
    history = turns("Which basin freezes first?", "The Old Basin freezes first. Boats stay afloat.")
    assert joined("How deep is it?", history) == "Which basin freezes first? How deep is it? (The Old Basin)"
    korean = turns("가장 많이 빌린 책은 무엇인가요?", "“우물가의 고양이”입니다.")
    assert joined("그건 누가 썼나요?", korean).endswith("그건 누가 썼나요? (우물가의 고양이)")


ROW = (
    "Quoted from Larkspur C40 Handbook, page 18 (“16”):\n“Code: E12; Meaning: Room too warm; Lamp: red”\n\n"
    "And Larkspur C40 Handbook, page 19:\n“The ferry Marigold sails to Gannet Island The landing is at Otter Quay.”"
)


@pytest.mark.parametrize(
    ("follow_up", "added"),
    [
        ("And how often does she sail?", " (E12, The ferry Marigold, Gannet Island, Otter Quay)"),
        ("And what should I do then?", ""),  # no word of it could mean a name
        ("And in winter?", ""),
    ],
)
def test_names_come_from_what_was_quoted_and_never_from_the_words_around_it(follow_up: str, added: str) -> None:
    history = turns("Which boat is there for the lamp?", ROW)
    assert joined(follow_up, history) == f"Which boat is there for the lamp? {follow_up}{added}"


@pytest.mark.parametrize("question", ["Who made it?", "그건 누가 만들었나요?"])
def test_a_refusal_names_nothing(question: str) -> None:
    kb = pump_kb()
    refused = not_covered(kb, question, kb.passages)[-1]
    assert isinstance(refused, Answered) and "“machines”" in refused.answer
    assert joined(question, turns(ASKED, refused.answer)) == f"{ASKED} {question}"


def test_a_pasted_text_stands_by_itself_and_is_not_joined_with_what_follows() -> None:
    assert joined("And why?", turns("word " * 500, "Hm.")) == "And why?"
    assert not leans("And this is what they wrote: " + "word " * 500)


@pytest.mark.parametrize(
    ("written", "by"),
    [
        ("What is the warranty of the mixer in winter?", "model"),
        ("What is the warranty of the mixer?", "rules"),  # without the question's own word
        ("What is the warranty of the mixer in summer?", "rules"),
        ("What is the warranty of the mixer in winter in Oslo?", "rules"),  # nobody spoke of Oslo
        ("And in winter?", "rules"),
        ("The warranty of the mixer in winter is 24 months.", "rules"),
        ("", "rules"),
    ],
)
async def test_a_models_rewrite_is_taken_where_it_keeps_to_what_was_said(written: str, by: str) -> None:
    llm = ScriptedLanguageModel([written])
    found = await standalone(llm, "And in winter?", SAID, "model")
    assert found.by == by
    assert found.question == (written if by == "model" else f"{ASKED} And in winter?")
    assert found.usage.prompt_tokens > 0
    (call,) = llm.calls
    assert call.options.temperature == 0 and call.options.max_tokens <= 64


async def test_a_model_that_fails_leaves_the_rewriting_to_the_rules() -> None:
    llm = ScriptedLanguageModel([LanguageModelUnavailable("It is gone.")])
    assert (await standalone(llm, "And in winter?", SAID, "model")).question == f"{ASKED} And in winter?"


@pytest.mark.parametrize(
    ("question", "history"), [("Who is the coxswain of the lifeboat?", SAID), ("And in winter?", ())]
)
async def test_a_question_with_nothing_to_lean_on_is_asked_as_it_is(question: str, history: Sequence[Message]) -> None:
    llm = ScriptedLanguageModel(["never asked"])
    assert await standalone(llm, question, history, "model") == Standalone(question)
    assert not llm.calls


@pytest.mark.parametrize("route", ["rag", "cag"])
@pytest.mark.parametrize(("budget", "kept"), [(1000, 3), (64, 2), (63, 1), (32, 1), (31, 0), (0, 0)])
async def test_a_prompt_holds_the_newest_exchanges_that_its_budget_takes_and_tells_what_is_left_out(
    route: str, budget: int, kept: int
) -> None:
    exchanges = [turns(f"Question {n} of the pump is {n}?", f"The answer to {n} is that {n} is {n}.") for n in range(3)]
    history = [turn for exchange in exchanges for turn in exchange]
    settings = SETTINGS.model_copy(update={"history_tokens": budget})
    llm, question = ScriptedLanguageModel([FILTER]), "How often is the filter of the pump cleaned?"
    if route == "rag":
        events = await collect(answer(llm, pump_kb(), question, history, settings))
    else:
        pack = [Message("system", f"{FILTER} {WARRANTY}")]
        events = await collect(answer_from_pack(llm, pump_kb(), pack, 30, question, history, settings))
    shown = list(llm.calls[-1].messages[1:-1])
    assert shown == history[len(history) - 2 * kept :]
    (told,) = of(events, HistoryRead)
    assert (told.history.turns, told.history.left_out) == (2 * kept, 6 - 2 * kept)
    assert told.history.tokens <= budget
    notes = ending(events).notes
    assert bool(notes) == (kept < 3)
    assert kept == 3 or f"{6 - 2 * kept} earliest turns" in notes[0]


async def test_an_answer_without_its_question_is_not_remembered() -> None:
    history = [Message("assistant", "Hello, what can I do?"), *turns("word " * 600, "Fine.")]
    llm = ScriptedLanguageModel([FILTER])
    events = await collect(answer(llm, pump_kb(), "How often is the filter cleaned?", history, SETTINGS))
    assert len(llm.calls[0].messages) == 2
    assert of(events, HistoryRead)[0].history.left_out == 2


@pytest.mark.parametrize("route", ["rag", "cag", "agent"])
async def test_what_is_known_of_the_reader_parts_no_prompt_before_the_end_of_the_question(route: str) -> None:
    question = "How often is the filter of the pump cleaned?"
    profiles = [UserProfile(expertise="beginner", detail="high"), UserProfile(expertise="expert", detail="low"), None]
    prompts: list[list[str]] = []
    for profile in profiles:
        llm, options = ScriptedLanguageModel([FILTER]), AnswerOptions(profile=profile)
        if route == "rag":
            await collect(answer(llm, pump_kb(), question, SAID, SETTINGS, options))
        elif route == "cag":
            pack = [Message("system", f"{FILTER} {WARRANTY}")]
            await collect(answer_from_pack(llm, pump_kb(), pack, 30, question, SAID, SETTINGS, options))
        else:
            llm = ScriptedLanguageModel(planning([step("query_rag_with_context", question=question)], {}))
            await collect(KnowledgeAgent(llm, pump_kb(), SETTINGS).run(question, SAID, options))
        prompts.append(llm.calls[-1].prompt.split())
    assert "beginner." in prompts[0] and "expert." in prompts[1]
    tokens = zip(*prompts, strict=False)
    shared = [first for first, *others in itertools.takewhile(lambda words: len(set(words)) == 1, tokens)]
    assert shared == prompts[2], "all of the prompt of a reader who is not known"
    assert FILTER.split()[-1] in shared and shared[-1] == "cleaned?"
