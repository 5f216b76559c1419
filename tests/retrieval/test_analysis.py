"""Text to terms, and queries made fit to search."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead_retrieval.errors import QueryError
from readahead_retrieval.index.analysis import query_terms, terms
from readahead_retrieval.query import clean_query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Strategies, goals & boxes", ["strategy", "goal", "boxe"]),
        ("The bus is the status of glass", ["the", "bus", "is", "the", "status", "of", "glass"]),
        ("NARA’s plan isn't", ["nara", "plan", "isn", "t"]),
        ("1,000.50 or 1000.50", ["1000.50", "or", "1000.50"]),
        ("version 3.2.1 in 2022.", ["version", "3.2.1", "in", "2022"]),
        ("part AB-1234_x", ["part", "ab", "1234", "x"]),
        ("ＡＢＣ ﬁne Straße", ["abc", "fine", "strasse"]),
        ("연차휴가는", ["연차", "차휴", "휴가", "가는"]),
        ("API는 2개", ["api", "는", "2", "개"]),
        ("東京都の人", ["東京", "京都", "都の", "の人"]),
        ("헌법 제12조의 제 3 항", ["헌법", "제12조", "12", "의", "제3항", "3"]),
        ("第5条", ["第5条", "5"]),
        ("Привет, мир", ["привет", "мир"]),
        ("…—!?", []),
    ],
)
def test_terms_of_words_numbers_and_scripts_without_spaces(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_a_noun_with_a_particle_shares_its_bigrams_with_the_bare_noun() -> None:
    for particle in ("는", "를", "에서", "으로부터"):
        assert set(terms("연차휴가")) <= set(terms(f"연차휴가{particle}"))


@given(st.text())
def test_composed_and_decomposed_text_have_the_same_terms(text: str) -> None:
    assert terms(unicodedata.normalize("NFD", text)) == terms(unicodedata.normalize("NFC", text))


def test_common_words_are_searched_only_when_there_is_nothing_else() -> None:
    assert query_terms("What is the budget of the budget?") == ["budget"]
    assert query_terms("what is it") == ["what", "is", "it"]


@given(st.text(max_size=200))
def test_a_cleaned_query_is_composed_and_on_one_line_or_refused(text: str) -> None:
    try:
        cleaned = clean_query(text)
    except QueryError:
        return
    assert cleaned
    assert unicodedata.is_normalized("NFC", cleaned)
    assert "\n" not in cleaned
    assert cleaned == cleaned.strip()
    cleaned.encode()
