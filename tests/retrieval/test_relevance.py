"""How far passages bear on a question."""

from __future__ import annotations

import pytest

from readahead_retrieval.relevance import key_terms, relevance
from readahead_retrieval.types import Evidence


def found(text: str, similarity: float) -> list[Evidence]:
    return [Evidence(1, "d", "a.pdf", 1, 1, "1", "", text, 1.0, similarity)]


def test_relevance_is_the_cosine_plus_the_share_of_the_key_terms() -> None:
    passages = found("The warranty of the mixer is 24 months.", 0.4)
    assert relevance("What is the warranty of the mixer?", passages) == pytest.approx(1.4)
    assert relevance("What is the warranty of the boat?", passages) == pytest.approx(0.9)
    assert relevance("Who won the cup in Lisbon?", passages) == pytest.approx(0.4)


def test_a_passage_very_near_counts_though_it_says_it_in_other_words() -> None:
    assert relevance("How much holiday?", found("Annual leave is 25 days.", 0.55)) == pytest.approx(0.9)


def test_a_question_without_key_terms_is_borne_on_by_anything() -> None:
    assert relevance("Please summarise the document.", found("Pumps turn.", 0.1)) == pytest.approx(1.1)


def test_whether_documents_mention_a_thing_is_asked_of_the_thing() -> None:
    for asked in ("Does the manual mention batteries?", "Are batteries mentioned in the manual?"):
        assert key_terms(asked) == key_terms("batteries manual")


def test_words_in_another_script_are_not_held_against_the_passages() -> None:
    assert relevance("필터 청소", found("The filter is cleaned.", 0.6)) == pytest.approx(1.2)


def test_korean_words_are_compared_without_particles_and_endings() -> None:
    assert key_terms("목공방을 쓰려면 무엇이 필요한가요?") >= {"목공", "쓰려"}
    assert relevance("연차휴가는 며칠인가요?", found("연차휴가를 열다섯 날 준다.", 0.0)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [
        ("목공방을 쓰려면 무엇을 받아야 하나요?", "목공방은 안전 교육을 두 시간 받은 회원만 쓸 수 있다.", 1.0),
        ("공구를 쓰려면 무엇이 필요한가요?", "공구를 두고 쓰레기를 담는 쓸모 있는 함.", 1 / 3),
        ("가게는 언제 열어요?", "가게는 아침에 문을 연다.", 1.0),
        ("가게는 언제 열어요?", "가게의 열쇠와 연구.", 0.5),
        ("그럼 책을 빌리려면 몇 시까지 오나요?", "책을 빌렸다.", 1.0),
    ],
)
def test_a_korean_verb_is_found_in_its_other_forms(question: str, text: str, share: float) -> None:
    assert relevance(question, found(text, 0.0)) == pytest.approx(share)


def test_nothing_found_is_not_relevant() -> None:
    assert relevance("anything", []) == 0.0


def both(one: str, other: str, similarity: float) -> list[Evidence]:
    return [*found(one, similarity), *found(other, similarity)]


@pytest.mark.parametrize(
    ("question", "share"),
    [
        ("What does E02 mean and what does E30 mean?", 1.0),
        ("What do E02 and E30 mean?", 1.0),
        ("E02와 E30은 무엇인가요?", 1.0),
        ("Who mends the probe, and which battery has the clock?", 1.0),
        ("What do E02 and E77 mean?", 1 / 2),  # half is no answer
        ("Who mends the probe and how old is he?", 2 / 3),  # the second leans on the first
        ("Who mends the probe and what is the battery?", 2 / 3),  # a single word is in many a passage
    ],
)
def test_a_question_of_two_parts_is_borne_on_by_two_passages(question: str, share: float) -> None:
    passages = both("E02: the mate mends the probe.", "E30: replace the battery of the clock.", 0.3)
    assert relevance(question, passages) == pytest.approx(0.3 + share)
