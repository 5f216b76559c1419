"""The choice of a route and its reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from readahead_agents.fixed_evidence import passage
from readahead_platform.errors import ApiError
from readahead_platform.packs.offer import PackOffer
from readahead_platform.routing.facts import Concentration, KbFacts, Room, concentration
from readahead_platform.routing.route import MAX_DELTA_TOKENS, MIN_CONCENTRATION, choose_route


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


def test_a_question_that_names_a_page_is_searched_for_that_page_whatever_pack_there_is() -> None:
    question = "What does page 3 of the handbook say?"
    chosen = choose_route("auto", question, PackOffer(is_ready=True, tokens=900), 3000)
    assert (chosen.chosen, chosen.facts["question_kind"]) == ("rag", "page") and "a page" in chosen.why
    assert choose_route("cag", question, PackOffer(is_ready=True, tokens=900), 3000).chosen == "cag"


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
    assert chosen.estimate_from == "pack"


def test_an_estimate_says_what_it_was_made_from_and_nothing_is_made_up() -> None:
    unknown = choose_route("auto", FACT, room=ROOM)
    assert unknown.estimate_s is None and unknown.estimate_from is None
    measured = choose_route("auto", FACT, room=replace(ROOM, read_s=0.01))
    assert (measured.estimate_s, measured.estimate_from) == (4.2, "engine")


LARGE = KbFacts(
    tokens=50_000, evidence=Concentration("doc_1", "pump.pdf", MIN_CONCENTRATION), document_pack=resident(1500)
)


def test_a_large_knowledge_base_is_answered_from_the_pack_of_the_document_that_the_evidence_lies_in() -> None:
    chosen = choose_route("auto", FACT, PackOffer(is_ready=False), 3000, ROOM, LARGE)
    assert (chosen.chosen, chosen.pack_document) == ("cag", "doc_1")
    assert "70% of what a search finds lies in pump.pdf" in chosen.why and "1500 tokens" in chosen.why
    assert (chosen.facts["evidence_document"], chosen.facts["evidence_share"]) == ("pump.pdf", MIN_CONCENTRATION)
    assert (chosen.facts["kb_tokens"], chosen.facts["document_pack_tokens"]) == (50_000, 1500)
    assert (chosen.estimate_s, chosen.estimate_from) == (1.0, "pack")
    over_the_limit = choose_route("auto", FACT, resident(9000), 3000, ROOM, LARGE)
    assert over_the_limit.pack_document == "doc_1"
    assert choose_route("cag", FACT, PackOffer(is_ready=False), 3000, ROOM, LARGE).pack_document == "doc_1"


@pytest.mark.parametrize(
    "facts",
    [
        replace(LARGE, evidence=Concentration("doc_1", "pump.pdf", MIN_CONCENTRATION - 0.01)),
        replace(LARGE, evidence=None),
        replace(LARGE, document_pack=PackOffer(is_ready=False)),
        replace(LARGE, document_pack=resident(2049)),
    ],
)
def test_a_documents_pack_is_left_where_it_cannot_answer_alone(facts: KbFacts) -> None:
    chosen = choose_route("auto", FACT, PackOffer(is_ready=False), 3000, ROOM, facts)
    assert (chosen.chosen, chosen.pack_document) == ("rag", None)
    assert "about 50000 tokens, over the 2048" in chosen.why


def test_the_whole_documents_go_before_one_and_a_comparison_before_both() -> None:
    assert choose_route("auto", FACT, resident(1000), 3000, ROOM, LARGE).pack_document is None
    assert choose_route("auto", "Compare oil with gas.", resident(1000), 3000, ROOM, LARGE).chosen == "agent"


def test_documents_that_are_still_being_read_are_told() -> None:
    chosen = choose_route("auto", FACT, kb=KbFacts(pending=2, changed=1))
    assert "2 documents are still being read" in chosen.why
    assert (chosen.facts["documents_pending"], chosen.facts["documents_changed"]) == (2, 1)


def test_evidence_lies_where_most_of_the_score_does() -> None:
    found = [replace(passage("a.pdf", page, "x"), score=score) for page, score in ((1, 0.6), (2, 0.3))]
    found.append(replace(passage("b.pdf", 1, "x"), score=0.1))
    lies = concentration(found)
    assert lies is not None and (lies.document_id, lies.document) == ("doc_a.pdf", "a.pdf")
    assert lies.share == pytest.approx(0.9)
    assert concentration([replace(found[0], score=-1.0)]) is None
    assert concentration([]) is None
