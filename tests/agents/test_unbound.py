"""Pronouns within a longer question: those that stand for something in it, and those that lean on what was said."""

from __future__ import annotations

import pytest

from readahead_agents.llm.base import Message
from readahead_agents.memory.follow_up import joined, leans


@pytest.mark.parametrize(
    "question",
    [
        "Who is her deputy?",
        "Who signs the yearly report of her deputy?",
        "What did they decide about its budget?",
        "On which day of the month do they meet in the town hall?",
        "How many screws and nuts of steel did it take?",
        "What is the yearly cost of the upkeep of its roof?",
        "Within how many days of a refusal must I turn to them?",
        "How many screws and bolts were missing in that year?",
        "Which part of the fine follows under this rule?",
        "그들의 임기는 몇 해이고 그 가운데 주민은 몇 명인가요?",
        "해당 행사에 2030년에는 주민 몇 명이 찾았나요?",
    ],
)
def test_a_pronoun_that_nothing_in_the_question_agrees_with_leans(question: str) -> None:
    assert leans(question)


@pytest.mark.parametrize(
    "question",
    [
        "How long is the warranty of the C40 and of its probes?",
        "When is the lock closed for the renewal of its seals?",
        "How many members lost their receipt in winter?",
        "How much of next year's budget may a circle borrow that has used up its own?",
        "How long does it take to cross the bar of the river at night?",
        "Which keeper of the lock lives with his family?",
        "If a boat has no marks, at whose risk is it lifted?",
        "What does the manual say on the care of this year?",
        "How does the limit in zone A differ from that in zone B?",
        "Under which rules of the policy does anyone get their money back?",
        "In which years did the town and its harbour ask Ines Calloway and her deputy for a report?",
        "가난한 이들을 돕는 모임방은 언제 열리나요?",
    ],
)
def test_a_pronoun_that_stands_for_something_in_the_question_does_not_lean(question: str) -> None:
    assert not leans(question)


def test_a_name_of_the_last_answer_goes_along_with_a_korean_pronoun() -> None:
    history = [Message("user", "가장 오래 일한 사서는 누구인가요?"), Message("assistant", "“한보람”입니다.")]
    assert joined("그녀가 맡은 자료실은 몇 층에 있나요?", history).endswith("(한보람)")
