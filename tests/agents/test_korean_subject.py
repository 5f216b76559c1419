"""In Korean the particles tell what a question and a statement are about, and counters what a figure counts."""

from __future__ import annotations

import pytest

from readahead_agents.answering.answer import answer
from readahead_agents.answering.kinds import tells_another_figure
from readahead_agents.answering.quotation import best_units
from readahead_agents.answering.subject import Subject
from readahead_agents.events import Answered
from readahead_agents.fixed_evidence import FixedEvidenceSource, passage
from readahead_agents.llm.scripted import ScriptedLanguageModel
from tests.agents.parts import SETTINGS, collect, ending

CHIEF = "제98조 ①감사소는 소장을 포함한 다섯 사람으로 구성한다. ②소장은 이사장이 임명하고, 한 번 거듭 맡을 수 있다."
CHAIR = "제70조 이사장의 임기는 5년으로 하며, 거듭 맡을 수 없다."
WORKSHOP = "제7조(목공방) 안전 교육을 두 시간 받은 회원만 쓴다. 재료비는 쓴 만큼 내며, 1회 이용료는 삼천 원이다."
MEETING = "제8조(모임방) 1회 이용료는 오천 원이다."
ROOMS = "| 시설 | 위치 | 평일 |\n| 열람실 | 3층 | 07:00-23:00 |\n| 목공방 | 지하 1층 | 13:00-20:00 |"
SEATS = "열람실은 모두 128석이다."


async def answered(question: str, written: str, *texts: str) -> Answered:
    passages = [passage("ko.pdf", number, text) for number, text in enumerate(texts, 1)]
    source = FixedEvidenceSource(passages, name="규정", floor=0.0)
    return ending(await collect(answer(ScriptedLanguageModel([written]), source, question, (), SETTINGS)))


@pytest.mark.parametrize(
    ("question", "owner", "noun"),
    [
        ("이사장은 거듭 맡을 수 있나요?", "이사장", "이사장"),
        ("이사장이 거듭 맡을 수 있나요?", "이사장", "이사장"),
        ("감사소장의 임기는 몇 년인가요?", "감사소장", "임기"),
        ("감사소장의 임기", "감사소장", "임기"),
        ("목공방 1회 이용료는 얼마인가요?", "목공방", "이용료"),
        ("그럼 어린이 회원은요?", "어린이", "회원"),
        ("이사장을 뽑는 선거는 언제 하나요?", "선거", "선거"),
        ("국가는 무엇을 하나요?", "국가", "국가"),
    ],
)
def test_the_subject_of_a_question_is_told_by_its_particle(question: str, owner: str, noun: str) -> None:
    assert Subject.of(question) == Subject(owner, noun)


@pytest.mark.parametrize(
    "question",
    [
        "주말에는요?",
        "제12조는 무엇을 정하나요?",
        "무엇이 필요합니까?",
        "책을 늦게 돌려주면 어떻게 되나요?",
        "누가 하나요?",
        "Who is it?",
    ],
)
def test_a_question_without_such_a_particle_tells_no_subject(question: str) -> None:
    assert Subject.of(question) is None


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("이사장은 거듭 맡을 수 있나요?", CHAIR),
        ("감사소장은 거듭 맡을 수 있나요?", "②소장은 이사장이"),  # a shorter word for it
        ("목공방 1회 이용료는 얼마인가요?", "삼천 원"),  # by its article
        ("모임방 1회 이용료는 얼마인가요?", "오천 원"),
        ("열람실은 평일에 언제 여나요?", "07:00-23:00"),
    ],
)
def test_the_statement_about_the_subject_is_quoted(question: str, said: str) -> None:
    found = [
        passage("ko.pdf", number, text) for number, text in enumerate([CHIEF, CHAIR, SEATS, MEETING, WORKSHOP, ROOMS])
    ]
    assert said in best_units(question, found)[0].text


@pytest.mark.parametrize(
    ("question", "text", "another"),
    [
        ("이사장은 거듭 맡을 수 있나요?", "②소장은 이사장이 임명하고, 한 번 거듭 맡을 수 있다.", True),
        ("이사장은 어떻게 물러나나요?", "④이사장의 뜻이 다를 때에는 위원회는 물러나게 한다.", False),  # begins with it
        ("예산안은 언제까지 내나요?", "관청은 예산안을 구월까지 낸다.", False),  # what is done to it
        ("책은 며칠 동안 빌리나요?", "회원은 14일 동안 빌린다.", False),  # nothing in it misleads
        ("휴관일은 언제인가요?", "제5조(휴관일) 도서관은 휴관일인 월요일에 쉰다.", False),
        ("의장은 누구인가요?", "소장은 회의의 의장이 된다.", False),
    ],
)
def test_a_statement_about_another_is_told_by_its_topic(question: str, text: str, another: bool) -> None:
    [unit] = best_units(question, [passage("ko.pdf", 1, text)])
    subject = Subject.of(question)
    assert (subject is not None and subject.is_not_of(unit)) == another


async def test_a_statement_about_another_is_neither_an_answer_nor_quoted_as_one() -> None:
    said = await answered("이사장은 거듭 맡을 수 있나요?", "이사장은 한 번 거듭 맡을 수 있다.", CHIEF)
    assert said.quoted and said.answer.startswith("문서에 이 질문의 답이 없을 수 있습니다.")
    right = await answered("이사장은 거듭 맡을 수 있나요?", "이사장은 한 번 거듭 맡을 수 있다.", CHIEF, CHAIR)
    assert CHAIR in right.answer and "한 번" not in right.answer


async def test_what_is_asked_of_the_whole_may_be_told_of_its_parts() -> None:
    said = await answered(
        "감사소는 무엇을 하나요?", "소장은 이사장이 임명한다.", "감사소의 일이다. 소장은 이사장이 임명한다."
    )
    assert not said.quoted


@pytest.mark.parametrize(
    ("question", "text", "another"),
    [
        ("자료실은 몇 층에 있나요?", "17,940권이다.", True),
        ("자료실은 몇 층에 있나요?", "지하 1층에 있다.", False),
        ("위원은 몇 명인가요?", "사서 두 명과 주민 4명이다.", False),
        ("열람실은 언제 여나요?", "128석 있다.", True),
        ("열람실은 언제 여나요?", "07:00부터 연다.", False),
        ("도서관은 언제 쉬나요?", "매월 둘째 월요일에 쉰다.", False),
        ("이용료는 얼마인가요?", "13:00-20:00에 연다.", True),
        ("이용료는 얼마인가요?", "3,000원이다.", False),
        ("무게는 얼마인가요?", "620 g이다.", False),
        ("How many are there?", "In 1990.", False),
    ],
)
def test_a_figure_of_another_kind_is_told_from_the_one_asked_for(question: str, text: str, another: bool) -> None:
    assert tells_another_figure(question, text) == another


async def test_a_sentence_with_a_figure_of_another_kind_is_left_out() -> None:
    said = await answered("열람실은 평일에 언제 여나요?", SEATS, f"{SEATS}\n{ROOMS}")
    assert "07:00-23:00" in said.answer and "128석" not in said.answer
