"""The choice of a route and its reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readahead_platform.errors import ApiError
from readahead_platform.routing.route import MAX_DELTA_TOKENS, PackOffer, Room, choose_route


@pytest.mark.parametrize(
    "question",
    [
        "Compare the warranty of the pump with that of the heater.",
        "Summarise the travel policy.",
        "Analyse the risks of the site.",
        "두 문서를 비교해 주세요",
    ],
)
def test_a_question_that_needs_several_steps_goes_to_the_agent(question: str) -> None:
    chosen = choose_route("auto", question)
    assert chosen.chosen == "agent"
    assert chosen.why


@pytest.mark.parametrize("question", ["How heavy is the pump?", "Which oil does the gearbox take?"])
def test_a_question_that_names_what_it_looks_for_is_searched(question: str) -> None:
    assert choose_route("auto", question).chosen == "rag"


def test_a_requested_route_is_honoured() -> None:
    assert choose_route("rag", "Compare a and b.").chosen == "rag"
    assert choose_route("agent", "How heavy is the pump?").chosen == "agent"


def test_a_pack_that_does_not_exist_cannot_be_asked() -> None:
    with pytest.raises(ApiError) as raised:
        choose_route("cag", "How heavy is the pump?")
    assert (raised.value.status, raised.value.code) == (400, "pack_unavailable")


def test_a_pack_whose_documents_changed_is_read_where_little_is_new_or_where_it_is_asked_for() -> None:
    question = "How heavy is the pump?"
    little = PackOffer(is_ready=True, tokens=2000, delta_tokens=MAX_DELTA_TOKENS)
    much = PackOffer(is_ready=True, tokens=2000, delta_tokens=MAX_DELTA_TOKENS + 1)
    assert choose_route("auto", question, little, 3000).chosen == "cag"
    assert choose_route("auto", question, much, 3000).chosen == "rag"
    assert choose_route("cag", question, much, 3000).chosen == "cag"
    for offer in (little, much):
        assert f"documents_changed: {offer.delta_tokens} tokens" in choose_route("auto", question, offer, 3000).why
    assert "documents_changed" not in choose_route("auto", question, PackOffer(is_ready=True, tokens=9), 3000).why


FACT = "How heavy is the pump?"
ROOM = Room(window=8192, answer=256, search=320)


def resident(tokens: int) -> PackOffer:
    return PackOffer(is_ready=True, tokens=tokens, state="resident", build_s=tokens / 100, nbytes=tokens * 40_000)


def test_a_pack_is_read_whole_up_to_what_is_set_and_a_quarter_of_the_window() -> None:
    assert choose_route("auto", FACT, resident(2048), 3000, ROOM).chosen == "cag"
    over = choose_route("auto", FACT, resident(2049), 3000, ROOM)
    assert over.chosen == "rag" and "2048" in over.why
    wide = replace(ROOM, window=100_000)
    assert choose_route("auto", FACT, resident(3000), 3000, wide).chosen == "cag"
    assert choose_route("auto", FACT, resident(3001), 3000, wide).chosen == "rag"


def test_a_pack_that_leaves_no_room_for_the_answer_is_not_read_whole() -> None:
    assert choose_route("auto", FACT, resident(1000), 3000, replace(ROOM, answer=7500)).chosen == "rag"


def test_a_pack_on_disk_is_loaded_only_where_that_is_quicker_than_reading() -> None:
    quick = replace(resident(1000), state="on_disk")
    assert choose_route("auto", FACT, quick, 3000, ROOM).chosen == "cag"
    slow = choose_route("auto", FACT, replace(quick, build_s=0.01), 3000, ROOM)
    assert slow.chosen == "rag" and "takes longer" in slow.why


def test_the_choice_shows_its_facts_and_an_estimate_where_something_was_measured() -> None:
    chosen = choose_route("auto", FACT, resident(1000), 3000, ROOM)
    assert chosen.facts["question_kind"] == "fact"
    assert (chosen.facts["pack_state"], chosen.facts["pack_tokens"]) == ("resident", 1000)
    assert (chosen.facts["window_tokens"], chosen.facts["cag_limit_tokens"]) == (8192, 2048)
    searched = choose_route("rag", FACT, resident(1000), 3000, ROOM)
    acted = choose_route("agent", FACT, resident(1000), 3000, ROOM)
    assert chosen.estimate_s == 1.0  # a question of 100 tokens at 100 tokens a second
    assert searched.estimate_s == 4.2 and acted.estimate_s == 12.6
    assert choose_route("auto", FACT).estimate_s is None
