"""Which statements of two sides are set beside one another: those that give values of one measure, or what is asked."""

from __future__ import annotations

from readahead_agents.answering.comparison import Side, told_of
from readahead_agents.fixed_evidence import passage
from readahead_agents.planning.question_kind import compared_sides, question_about


def best(question: str, *texts: list[str]) -> list[str]:
    """The best statement of each side, of what was found for each."""
    names = compared_sides(question)
    assert names is not None
    found = [tuple(passage("found.pdf", number, text) for number, text in enumerate(held)) for held in texts]
    sides = [Side(name, question_about(name, names, question), held) for name, held in zip(names, found, strict=True)]
    return [told.best.text for told in told_of(sides)]


def test_terms_in_days_and_in_months_are_compared_with_one_another() -> None:
    repaired = "Parts under the warranty of the pump are repaired in 10 days."
    warranty = "The pump has a warranty of 36 months from the day it is brought."
    deadline = "Claims are handed in by the deadline, 30 days after the return."
    question = "Which is longer, the pump's warranty or the deadline for claims?"
    assert best(question, [warranty, repaired], [deadline]) == [warranty, deadline]


def test_of_sides_that_are_compared_in_dates_statements_with_dates_are_told() -> None:
    question = "Compare Ada Lark and Grace Wren's launch dates."
    paid, weighed = "Ada Lark was paid 300 crowns for each launch.", "Grace Wren had a launch of 40 kg."
    launched = ["The launch of Ada Lark was in March 1989.", "The launch of Grace Wren was in May 1993."]
    assert best(question, [paid, launched[0]], [weighed, launched[1]]) == launched
