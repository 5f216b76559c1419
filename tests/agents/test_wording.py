"""What the service says itself, in the language of the question, on every route."""

from __future__ import annotations

import pytest

from readahead_agents.agent import KnowledgeAgent
from readahead_agents.answering.answer import answer
from readahead_agents.answering.pack_answer import answer_from_pack
from readahead_agents.answering.wording import ENGLISH, KOREAN, REFUSAL, Wording, wording_of
from readahead_agents.events import Answered
from readahead_agents.fixed_evidence import FixedEvidenceSource, passage
from readahead_agents.llm.base import Message
from readahead_agents.llm.scripted import ScriptedLanguageModel
from tests.agents.parts import SETTINGS, collect, ending, planning, step

WORKSHOP = "목공방은 안전 교육을 두 시간 받은 회원만 쓸 수 있다."
ASKED = "목공방은 안전 교육을 몇 시간 받나요?"
SAID_BY_US = ("quot", "passage", "page", "document", "not in", "mention")


def library(floor: float) -> FixedEvidenceSource:
    return FixedEvidenceSource([passage("ko.pdf", 1, WORKSHOP)], name="도서관", floor=floor)


async def answered(route: str, question: str, floor: float) -> Answered:
    """What a model that knows nothing comes to on a route."""
    source = library(floor)
    llm = ScriptedLanguageModel(planning([step("query_rag_with_context", question=question)], {}, "모릅니다."))
    match route:
        case "rag":
            return ending(await collect(answer(llm, source, question, (), SETTINGS)))
        case "cag":
            pack = [Message("system", WORKSHOP)]
            return ending(await collect(answer_from_pack(llm, source, pack, 40, question, (), SETTINGS)))
        case _:
            return ending(await collect(KnowledgeAgent(llm, source, SETTINGS).run(question)))


@pytest.mark.parametrize("route", ["rag", "cag", "agent"])
async def test_a_korean_question_is_quoted_and_refused_in_korean(route: str) -> None:
    quoted = await answered(route, ASKED, floor=0.0)
    assert quoted.answer == f"다음 내용을 ko.pdf, 1쪽에서 인용합니다:\n“{WORKSHOP}”"
    refused = await answered(route, ASKED, floor=2.0)
    assert not refused.covered
    assert refused.answer == "“도서관”의 문서에는 이 내용이 없습니다. 가장 가까운 쪽: ko.pdf, 1쪽."
    for said in (quoted, refused):
        assert not [word for word in SAID_BY_US if word in " ".join([said.answer, *said.notes]).lower()]


@pytest.mark.parametrize("route", ["rag", "cag", "agent"])
async def test_what_the_model_was_asked_and_denied_is_told_of_the_passages_found_alone(route: str) -> None:
    denied = await answered(route, "목공방은 작년에 누가 어디서 왜 옮겼나요?", floor=0.0)
    assert denied.answer == "찾은 구절에는 이 내용이 나오지 않습니다. 가장 가까운 쪽: ko.pdf, 1쪽."
    assert not denied.covered


@pytest.mark.parametrize(
    ("question", "wording"),
    [
        ("C40의 보증 기간은 얼마인가요?", KOREAN),
        ("How long is the warranty?", ENGLISH),
        ("What does 목공방 mean?", ENGLISH),
        ("Where does it say “목공방은 안전 교육을 두 시간 받은 회원만 쓸 수 있다”?", ENGLISH),
        ("'안전 교육을 두 시간 받은 회원' is who?", ENGLISH),
        ('"the workshop is open to members" 라는 말은 어디에 있나요?', KOREAN),
        ("“목공방은 안전 교육”", KOREAN),
        ("Wie lange gilt die Garantie?", ENGLISH),
        ("24?", ENGLISH),
    ],
)
def test_the_longer_part_of_a_question_tells_its_language(question: str, wording: object) -> None:
    assert wording_of(question) is wording


@pytest.mark.parametrize("wording", [ENGLISH, KOREAN])
def test_both_refusals_are_told_from_what_documents_say(wording: Wording) -> None:
    for refusal in (wording.not_covered.format(kb="machines"), wording.not_told):
        assert REFUSAL.sub("", f"{refusal} The nearest pages are: pump.pdf, page 3.") == ""
    assert REFUSAL.sub("", WORKSHOP) == WORKSHOP
