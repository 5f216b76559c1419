"""When the best statement of the passages speaks, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from readahead_agents.answering.answer import answer
from readahead_agents.answering.denial import declines
from readahead_agents.answering.support import Judge
from readahead_agents.answering.units import halves
from readahead_agents.answering.verdict import Verdict
from readahead_agents.events import Answered
from readahead_agents.fixed_evidence import FixedEvidenceSource, passage
from readahead_agents.llm.scripted import ScriptedLanguageModel
from tests.agents.parts import SETTINGS, collect, ending

CARD = "The pump comes with a card for its warranty."
TERM = "The warranty of the pump is two full years."
CREW = [
    passage("harbour.pdf", 1, "The harbour master since 2026 is Ines Calloway. Her deputy is Tobias Wren."),
    passage(
        "harbour.pdf", 2, "The crew of the lifeboat has nine members. Its coxswain is Morwen Hale, who leads them."
    ),
]


async def answered(reply: str, source: FixedEvidenceSource, question: str) -> Answered:
    return ending(await collect(answer(ScriptedLanguageModel([reply]), source, question, [], SETTINGS)))


@pytest.mark.parametrize(("reply", "quoted"), [(CARD, True), (TERM, False)])
async def test_words_that_stand_on_nothing_of_the_sure_statement_are_followed_by_it(reply: str, quoted: bool) -> None:
    source = FixedEvidenceSource([passage("pump.pdf", 1, CARD), passage("pump.pdf", 2, TERM)])
    last = await answered(reply, source, "What is the full warranty of the pump?")
    assert last.answer.startswith(reply)
    assert last.quoted is quoted
    assert "two full years" in last.answer
    assert {citation.page for citation in last.citations} == ({1, 2} if quoted else {2})


async def test_each_part_of_a_question_is_quoted_though_no_statement_says_both() -> None:
    question = "Who is harbour master, and who leads the crew of the lifeboat?"
    last = await answered("I am not sure.", FixedEvidenceSource(CREW), question)
    assert last.answer.startswith("Quoted from")
    assert "Ines Calloway" in last.answer
    assert "Morwen Hale" in last.answer


WORKSHOP = "목공방은 안전 교육을 두 시간 받은 회원만 쓸 수 있다."


async def test_a_korean_sentence_is_borne_out_by_a_verb_in_another_form() -> None:
    passages = [passage("ko.pdf", 1, WORKSHOP), passage("ko.pdf", 1, "회원은 목공방 밖에서 안전 교육을 받는다.")]
    judge = Judge(FixedEvidenceSource(passages, cite_floor=0.5), "쓰려면 무엇이 필요합니까?", passages)
    assert (await judge.judge("안전 교육을 두 시간 받은 회원만 쓸 수 있다.")).verdict is Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("목공방에서는 무엇을 만들고 열람실은 언제 닫나요?", 2),
        ("회비는 얼마이며 열쇠는 누가 주나요?", 2),
        ("중앙 창고 열쇠는 어디에 있나요?", 0),
        ("무엇을 알고 싶은 회원이 오나요?", 0),
    ],
)
def test_a_korean_question_is_parted_behind_verbs_alone(question: str, parts: int) -> None:
    assert len(halves(question)) == parts


@pytest.mark.parametrize(
    "said", ["그 내용은 문서에 나와 있지 않습니다.", "문서에는 언급이 없습니다.", "알 수 없습니다.", "모릅니다."]
)
def test_a_korean_refusal_is_told_from_an_answer(said: str) -> None:
    assert declines(said)
    assert not declines(WORKSHOP)


@dataclass
class Likening(FixedEvidenceSource):
    """Finds every statement as near to every question."""

    cosine: float = 0.6

    async def nearness(self, question: str, texts: Sequence[str]) -> list[float]:
        return [self.cosine] * len(texts)


@pytest.mark.parametrize(
    ("question", "text", "cosine", "doubtful"),
    [
        ("How many gulls are there in the harbour?", "The gulls of the harbour rest on the wall at noon.", 0.6, True),
        ("How many gulls are there in the harbour?", "The gulls of the harbour rest on the wall at noon.", 0.8, False),
        ("How many gulls are there in the harbour?", "There are seven gulls of the harbour on the wall.", 0.6, False),
        ("Who feeds the gulls of the old harbour at noon?", "The gulls of the harbour rest at noon.", 0.6, True),
        (
            "Who feeds the gulls of the old harbour at noon?",
            "The gulls of the harbour rest at noon by Ines Calloway.",
            0.6,
            False,
        ),
        ("Who feeds the gulls of the old harbour at noon?", "The gulls of the harbour rest at noon.", 0.7, False),
        ("What does page 1 of the old harbour notes say?", "The gulls of the harbour rest on 1 page.", 0.6, False),
    ],
)
async def test_a_quotation_without_what_is_asked_for_comes_with_a_doubt_unless_it_is_near(
    question: str, text: str, cosine: float, doubtful: bool
) -> None:
    source = Likening([passage("harbour.pdf", 1, text)], floor=0.0, cosine=cosine)
    last = await answered("Bananas are yellow.", source, question)
    assert last.answer.startswith("The documents may not answer this." if doubtful else "Quoted from")
