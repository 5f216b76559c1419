"""Places that a question names."""

from __future__ import annotations

import pytest

from readahead_agents.named_places import beside_files, named_documents, named_files, names_file, page_asked

NAMES = {
    "a": "boiler-manual.pdf",
    "b": "travel-and-expense-policy.pdf",
    "c": "oak-hill-harbour-handbook.pdf",
    "d": "night_report.pdf",
    "e": "여비규정.pdf",
}


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("What does page 2 of travel-and-expense-policy.pdf say?", "b"),
        ("What does page 2 of the travel policy say?", "b"),
        ("What does page 2 of the Travel and Expense Policy tell about hotels?", "b"),
        ("What does page 3 of the boiler manual say about the harbour?", "a"),
        ("What stands on page iv of the handbook?", "c"),
        ("Page 7 of night report, please", "d"),
        ("여비규정의 2쪽에는 무엇이 있나요?", "e"),
        ("Summarise Night_Report.PDF.", "d"),
        ("Compare night_report.pdf with boiler-manual.pdf.", "ad"),
        # one word of many names nothing, nor does a name that is longer
        ("What does page 3 of the travel brochure say?", ""),
        ("What does page 3 say about the harbour?", ""),
        ("What does page 3 say?", ""),
    ],
)
def test_a_document_is_named_by_its_file_name_or_by_enough_words_of_it(question: str, named: str) -> None:
    assert "".join(named_documents(question, NAMES)) == named


def test_a_file_of_a_longer_name_is_another_file() -> None:
    question = "What does page 2 of my-night_report.pdf say?"
    assert named_files(question, NAMES) == () and names_file(question)
    assert not names_file("How is a PDF written, as .pdf?")


def test_words_that_tell_all_documents_alike_name_none() -> None:
    parts = {"a": "annual-report-east.pdf", "b": "annual-report-west.pdf"}
    assert named_documents("What does page 2 of the annual report say?", parts) == ()
    assert named_documents("What does page 2 of the annual report of the west say?", parts) == ("b",)


def test_what_is_asked_beside_the_names_of_files_is_told_apart() -> None:
    assert page_asked("How many pages has the travel policy?") is None
    assert beside_files("Summarise a.pdf and B.pdf.", ["a.pdf", "b.pdf"]).split() == ["Summarise", "and", "."]
