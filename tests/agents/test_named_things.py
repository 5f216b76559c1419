"""What a question calls by its name is answered from that, and from nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from readahead_agents.answering.answer import answer
from readahead_agents.events import Answered, Token
from readahead_agents.fixed_evidence import FixedEvidenceSource, passage
from readahead_agents.llm.scripted import ScriptedLanguageModel
from readahead_retrieval.types import Citation, Evidence
from tests.agents.parts import SETTINGS, collect, ending, of

ZONES = (
    "Zone | Places | Limit per night\nA | Capital cities | 165 crowns\nB | Towns above 100,000 people | 130 crowns\n"
    "C | All other places | 95 crowns"
)
CODES = "Code | Meaning\nE07 | Door open\nE12 | High pressure switch open"
BERTHS = "Length of boat | Week | Year\nup to 10 m | 138 | 1,310\nup to 12 m | 190 | 1,820"
BERTHS_AND_TEXT = f"Fees for boats in crowns.\n{BERTHS}\nA boat pays for every week begun."
COURT = (
    "Composition. In 1869 an act returned the size of the court to nine justices. In 1937 the president attempted to "
    "expand the court by up to six justices; the size of the court was debated for a year."
)


async def asked(question: str, reply: str, text: str, document: str = "rules.pdf") -> tuple[str, str, Answered]:
    """The model's own words that are shown, what is quoted, and the end."""
    source = FixedEvidenceSource([passage(document, 1, text)], name="rules")
    events = await collect(answer(ScriptedLanguageModel([reply]), source, question, [], SETTINGS))
    own, quoted = ("".join(token.text for token in of(events, Token) if token.quoted is kind) for kind in (False, True))
    return own, quoted, ending(events)


@pytest.mark.parametrize(
    ("question", "wrong", "right", "text"),
    [
        (
            "What is the limit per night in zone B?",
            "The limit per night in zone B is 165 crowns.",
            "B: towns above 100,000 people, 130 crowns.",
            ZONES,
        ),
        (
            "What does a boat of up to 10 m pay for a week?",
            "A boat of up to 10 m pays 190 crowns for a week.",
            "A boat of up to 10 m pays 138 for a week.",
            BERTHS_AND_TEXT,
        ),
        (
            "When was the size of the court returned to nine justices?",
            "The size of the court was returned to nine justices in 1937.",
            "The size of the court was returned to nine justices in 1869.",
            COURT,
        ),
    ],
)
async def test_the_figure_of_the_row_or_sentence_beside_is_not_taken(
    question: str, wrong: str, right: str, text: str
) -> None:
    own, quoted, _ = await asked(question, wrong, text)
    assert own == ""
    assert quoted
    assert (await asked(question, right, text))[0] == right


@pytest.mark.parametrize(
    ("question", "text", "told"),
    [
        ("What is the limit per night in zone F?", ZONES, "mentions “F”; those found name A, B, C."),
        ("What does error code E99 mean?", CODES, "mentions “E99”; those found name E07, E12."),
        (
            "제9조는 어떤 책을 정한다?",
            "제1조(목적) 이 규칙을 정한다. 제2조(대출) 책을 정한다.",
            "“제9조”에 관한 언급이 없고, 제1조, 제2조만",
        ),
    ],
)
async def test_what_the_passages_count_up_without_the_asked_one_is_not_answered(
    question: str, text: str, told: str
) -> None:
    own, quoted, last = await asked(question, "The limit per night in zone F is 165 crowns.", text)
    assert told in own
    assert not quoted
    assert not last.covered
    assert last.usage.completion_tokens == 0  # the model was not asked


async def test_a_name_that_no_passage_knows_is_told_with_the_quotation() -> None:
    question = "What was the air change rate in the building at Elm Avenue?"
    text = "The air change rate of the building, found by tracer gas, was 4.6 per hour."
    own, quoted, last = await asked(question, "The air change rate in the building at Elm Avenue was 4.6.", text)
    assert own == ""
    assert "No passage found mentions “Elm Avenue”. The closest passage" in quoted
    assert "4.6" in quoted
    assert any("Elm Avenue" in note for note in last.notes)


async def test_a_year_that_no_passage_knows_is_told_beside_what_is_answered() -> None:
    text = "The population of the town was 3,923 in 2016."
    own, _, last = await asked("What was the population of the town in 2030?", text, text)
    assert own == text
    assert last.notes == ("No passage found mentions “2030”.",)


async def test_a_code_of_the_documents_title_is_known() -> None:
    said = "The C40 logs a reading every 5 minutes."
    text = "It logs one reading every 5 minutes and keeps 400 days."
    own, _, last = await asked("How often does the C40 log a reading?", said, text, "c40-cold-room-manual.pdf")
    assert own == said
    assert last.covered


@pytest.mark.parametrize(
    "reply",
    [
        "The text mentions that the pump was built in 1999, but it does not provide the year of the mixer.",
        "The pump was built in 1999.",
    ],
)
async def test_a_true_sentence_that_does_not_answer_and_a_refusal_that_claims_are_left_out(reply: str) -> None:
    text = "The pump was built in 1999. The mixer stands in the yard and has seven blades of steel."
    own, _, _ = await asked("How many blades of steel has the mixer in the yard?", reply, text)
    assert own == ""


async def test_a_second_quotation_comes_only_for_the_half_that_the_first_lacks() -> None:
    text = (
        "The harbour master is Ines Calloway. The night berth costs 23 crowns. The coxswain of the lifeboat is Morwen."
    )
    unsure = "Bananas are yellow."
    _, quoted, _ = await asked("Who is harbour master, and who is coxswain of the lifeboat?", unsure, text)
    assert "Calloway" in quoted
    assert "Morwen" in quoted
    _, quoted, _ = await asked("Who is the harbour master of the year?", unsure, text)
    assert quoted.count("“") == 1


async def test_a_quotation_that_says_little_of_the_question_is_shown_with_a_warning() -> None:
    text = "The cooperative has 40 members, and its policy has version 6."
    _, quoted, _ = await asked("What is the cooperative's policy on parental leave?", "It is generous.", text)
    assert quoted.startswith("The documents may not answer this.")
    screws = "5. Close the cover with the four screws at 0.8 Nm. A higher torque cracks the gasket."
    _, quoted, _ = await asked("What torque do the cover screws need?", "They need 12 Nm.", screws)
    assert quoted.startswith("Quoted from")


@pytest.mark.parametrize(
    ("row", "header", "shown"),
    [
        ("B | Towns | 130 crowns", "Zone | Places | Limit", "Zone: B; Places: Towns; Limit: 130 crowns"),
        ("14 June | Salt Fair", "1 March | Dredging", "14 June · Salt Fair"),
        ("Crab | 151 | 160", "Landings | 2029 | 2030", "Landings: Crab; 2029: 151; 2030: 160"),
        ("2 | Railing | loose", "Part | Finding", "2 · Railing · loose"),
    ],
)
async def test_a_quoted_row_names_its_columns_and_shows_no_pipes(row: str, header: str, shown: str) -> None:
    text = f"{header}\n{row}\n{header.replace('a', 'o')}"
    _, quoted, last = await asked(f"What about {row.replace('|', ' ')}?", "Bananas are yellow.", text)
    assert f"“{shown}”" in quoted
    assert {last.answer[c.answer_start : c.answer_end] for c in last.citations} <= {shown}


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What colour are the fans at Larkspur Street?", "The fans at Larkspur Street hang under the roof of a hall."),
        (
            "Who is the governor of Texas?",
            "The governor of Oklahoma serves for four years. His house has ten rooms. Texas lies to the south of it.",
        ),
    ],
)
async def test_a_quotation_without_the_asked_noun_or_name_is_shown_with_a_warning(question: str, text: str) -> None:
    _, quoted, _ = await asked(question, "Bananas are yellow.", text)
    assert quoted.startswith("The documents may not answer this.")


@pytest.mark.parametrize(
    "question", ["Where do the fans at Larkspur Street hang?", "What kind of fans hang at Larkspur Street?"]
)
async def test_a_quotation_that_has_them_needs_no_warning(question: str) -> None:
    _, quoted, _ = await asked(question, "Bananas are yellow.", "The fans at Larkspur Street hang under the roof.")
    assert quoted.startswith("Quoted from")


class Paged(FixedEvidenceSource):
    """Cites a sentence where it stands: on the page that its line begins with."""

    async def cite(self, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        cited = await FixedEvidenceSource.cite(self, answer, evidence)
        lines = [line for passage in self.passages for line in passage.text.splitlines()]
        pages = [next((line[:2] for line in lines if line in citation.quote), "9") for citation in cited]
        return [
            replace(citation, page=int(page), page_label=str(int(page) - 4))
            for citation, page in zip(cited, pages, strict=True)
        ]


@pytest.mark.parametrize(
    ("question", "place", "quote"),
    [
        ("Who feeds the gulls of the harbour?", "page 10 (“6”)", "10 Ines Calloway feeds the gulls of the harbour."),
        ("Who keeps the lamp of the lock?", "page 11 (“7”)", "11 Tobias Wren keeps the lamp of the lock."),
        (
            "Who feeds the gulls of the harbour, and who keeps the lamp of the lock?",
            "page 10 (“6”)",
            "10 Ines Calloway feeds the gulls of the harbour.",
        ),
    ],
)
async def test_a_quotation_is_told_with_its_own_page_and_without_the_pages_number(
    question: str, place: str, quote: str
) -> None:
    text = f"5\n{'The tide ' + 'turns and ' * 50 + 'rests.'}\n10 Ines Calloway feeds the gulls of the harbour.\n6\n"
    text += "11 Tobias Wren keeps the lamp of the lock.\n7"
    long = replace(passage("harbour.pdf", 9, text), last_page=11, page_label="5")
    source = Paged([long])
    last = ending(await collect(answer(ScriptedLanguageModel(["Bananas."]), source, question, [], SETTINGS)))
    assert last.answer.startswith(f"Quoted from harbour.pdf, {place}:\n“{quote}”")
    assert last.citations
