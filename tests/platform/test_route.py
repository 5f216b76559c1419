"""The choice of a route and its reasons."""

from __future__ import annotations

import pytest

from readahead_platform.errors import ApiError
from readahead_platform.routing.route import MAX_DELTA_TOKENS, PackOffer, choose_route


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
