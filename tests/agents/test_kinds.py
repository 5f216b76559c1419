"""Which statement is put first: by meaning beside words, and by the kind of thing that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from readahead_agents.answering.answer import answer
from readahead_agents.answering.kinds import asked_kind
from readahead_agents.answering.quotation import best_units
from readahead_agents.answering.statements import near_of
from readahead_agents.fixed_evidence import FixedEvidenceSource, passage
from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_retrieval.types import Evidence
from tests.agents.parts import SETTINGS, collect, ending

REPORT = (
    "Footbridge over the Wendle, Ashmere path. Inspected on 12 September 2030 by the Trust.\n"
    "The bridge was built as a single span of 22.4 m with two larch beams.\n"
    "The works on the footbridge are estimated at 11,600 crowns."
)


@pytest.mark.parametrize(
    ("question", "holding", "lacking"),
    [
        ("What is the span of the footbridge?", "A span of 22.4 m.", "Report 0417 Footbridge, 12 September 2030"),
        ("What do the works cost?", "They are estimated at 11,600 crowns.", "The works of 2030 are planned."),
        ("What torque do the screws need?", "Screws | 0.8", "The screws hold the cover."),
        ("Who leads the crew?", "The crew is led by Morwen Hale.", "The crew is led by the coxswain."),
        ("Who is Morwen Hale?", "Her deputy is Ines Calloway.", "Morwen Hale lives here."),
        ("When did salt last leave?", "The last cargo left in 1911.", "The last cargo left long ago."),
        ("Where is the lamp?", "The lamp is at Saltmere.", "The lamp is red."),
        ("How many boats are there?", "There are seven boats.", "There are boats."),
    ],
)
def test_a_text_of_the_kind_that_is_asked_for_is_told_from_another(question: str, holding: str, lacking: str) -> None:
    kind = asked_kind(question)
    assert kind is not None
    assert kind.holds(holding)
    assert not kind.holds(lacking)


@pytest.mark.parametrize("question", ["Why is the lamp red?", "도서관은 언제 쉬나요?", "What happens at step Orange?"])
def test_a_question_that_tells_no_kind_prefers_none(question: str) -> None:
    assert asked_kind(question) is None


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What is the span of the footbridge over the Wendle?", "22.4 m"),
        ("What do the works on the footbridge cost?", "11,600 crowns"),
    ],
)
async def test_a_title_with_the_words_of_the_question_gives_way_to_the_value(question: str, first: str) -> None:
    [unit] = best_units(question, [passage("report.pdf", 1, REPORT)], most=1)
    assert first in unit.text


@dataclass
class KnowingSource(FixedEvidenceSource):
    """Knows what is said in other words, as an embedding model does."""

    cosine: float = 0.8

    async def search(self, query: str, top_k: int | None = None) -> list[Evidence]:
        return list(self.passages)

    def covers(self, question: str, evidence: Sequence[Evidence]) -> bool:
        return True

    async def nearness(self, question: str, texts: Sequence[str]) -> list[float]:
        return [self.cosine if "lifetime tenure" in text else 0.3 for text in texts]


TENURE = [
    passage("court.pdf", 1, "A term of the court begins on the first Monday of October and ends in June."),
    passage("court.pdf", 2, "Once appointed, judges have lifetime tenure unless they resign."),
]


async def test_a_statement_that_answers_in_other_words_comes_before_one_that_has_the_words() -> None:
    question = "How long is the term of a judge of the court?"
    near = await near_of(KnowingSource(TENURE), question, TENURE)
    assert "lifetime tenure" in best_units(question, TENURE, near)[0].text
    assert "first Monday" in best_units(question, TENURE)[0].text


async def test_statements_are_compared_by_meaning_in_english_alone_and_no_more_than_are_weighed() -> None:
    source = KnowingSource(TENURE)
    assert (await near_of(source, "법관의 임기는 얼마인가요?", TENURE)).cosines == {}
    many = [passage("long.pdf", page, f"The judge of room {page} sits. The court meets there.") for page in range(40)]
    assert len((await near_of(source, "Which judge sits in the court?", many)).cosines) == 24


@pytest.mark.parametrize(("cosine", "begins"), [(0.8, "Quoted from court.pdf, page 2"), (0.6, "The documents may not")])
async def test_a_quotation_that_answers_in_other_words_comes_without_a_doubt(cosine: float, begins: str) -> None:
    source = KnowingSource(TENURE, cosine=cosine)
    llm = ScriptedLanguageModel(["It depends."])
    last = ending(await collect(answer(llm, source, "Until when does a judge stay on the bench?", [], SETTINGS)))
    assert "lifetime tenure" in last.answer
    assert last.answer.startswith(begins)
