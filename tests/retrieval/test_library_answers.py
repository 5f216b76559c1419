"""The whole path with the real embedding model: a file comes in, a question finds its page, an answer cites it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from readahead_retrieval.embedders.local import LocalEmbedder
from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import EmbedderRefused, EmptyKnowledgeBase, NotFound, QueryError
from readahead_retrieval.passage_desk import MAX_PASSAGES
from readahead_retrieval.types import DocumentState
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, opened


async def test_a_question_in_other_words_finds_the_page_that_answers_it(
    tmp_path: Path, handbook: Path, minilm: LocalEmbedder
) -> None:
    async with opened(tmp_path, minilm) as library:
        await library.create_kb(TENANT, "rules")
        document = await add(library, "rules", handbook)
        assert (document.state, document.pages, document.pages_done) == (DocumentState.SEARCHABLE, 3, 3)
        assert document.chunks == document.chunks_done > 0

        found = await library.search(TENANT, "rules", "How many vacation days do workers get?", top_k=1)
        assert [(e.page, e.document, e.document_id) for e in found] == [(1, "handbook.pdf", document.id)]
        assert found[0].similarity > 0.4
        assert found[0].ranks["dense"] == 1


async def test_an_answer_cites_the_page_with_a_verbatim_quote_and_where_it_stands(
    tmp_path: Path, handbook: Path, minilm: LocalEmbedder
) -> None:
    answer = "Sure! You may spend at most 140 euros a night on hotels [99]. Bananas are yellow."
    async with opened(tmp_path, minilm) as library:
        await library.create_kb(TENANT, "rules")
        await add(library, "rules", handbook)
        evidence = await library.search(TENANT, "rules", "hotel price limit")
        (citation,) = await library.cite(TENANT, answer, evidence)
    assert citation.page == 2
    assert citation.quote == "Hotels are paid up to 140 euros for each night, breakfast included."
    assert "140 euros" in answer[citation.answer_start : citation.answer_end]
    assert 0.5 <= citation.score <= 1
    (box,) = citation.boxes
    # on the base line y = 760 of 842, from x = 72 on, as the sample draws it
    assert (box.x0, box.y1) == pytest.approx((72 / 595, 1 - 760 / 842), abs=0.01)
    assert box.x1 < 0.75


async def test_an_invented_number_is_not_supported_by_the_passage_that_has_another(
    tmp_path: Path, handbook: Path, minilm: LocalEmbedder
) -> None:
    async with opened(tmp_path, minilm) as library:
        await library.create_kb(TENANT, "rules")
        await add(library, "rules", handbook)
        evidence = await library.search(TENANT, "rules", "paid annual leave")
        right = await library.cite(TENANT, "Every employee has 25 days of paid annual leave.", evidence)
        wrong = await library.cite(TENANT, "Every employee has 52 days of paid annual leave.", evidence)
    assert [c.page for c in right] == [1]
    assert wrong == []


async def test_a_year_at_the_end_of_a_sentence_is_no_label_of_a_list(tmp_path: Path) -> None:
    said = "The yard was closed on 29 June 2013. 2015 saw it open again."
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", samples.write_pdf(tmp_path / "yard.pdf", samples.lines(said)))
        evidence = await library.search(TENANT, "k", "yard closed")
        for answer in (said, f"1. {said}"):
            assert [citation.page for citation in await library.cite(TENANT, answer, evidence)] == [1]


async def test_each_line_of_a_quote_over_two_lines_has_its_box(tmp_path: Path) -> None:
    path = samples.write_pdf(
        tmp_path / "notice.pdf",
        samples.blank,
        samples.lines(
            "The archive of the harbour authority holds nine hundred and twelve ledgers of the years before",
            "the great fire, and every one of them may be read on request in the reading room upstairs.",
        ),
    )
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", path)
        evidence = await library.search(TENANT, "k", "harbour ledgers")
        (citation,) = await library.cite(
            TENANT, "The harbour authority holds ledgers before the great fire, read on request.", evidence
        )
    assert citation.page == 2
    first, second = citation.boxes
    assert first.y1 <= second.y0 + 0.005


async def test_a_printed_page_label_stands_beside_the_physical_page(tmp_path: Path, handbook: Path) -> None:
    labelled = samples.labelled(tmp_path / "labelled.pdf", handbook, roman=2)
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", labelled)
        found = await library.search(TENANT, "k", "hotels breakfast", top_k=1)
        (citation,) = await library.cite(TENANT, "Hotels are paid up to 140 euros.", found)
    assert (found[0].page, found[0].page_label) == (2, "ii")
    assert (citation.page, citation.page_label) == (2, "ii")


async def test_korean_with_particles_is_found_by_the_lexical_side(tmp_path: Path, korean_font: str) -> None:
    path = samples.write_pdf(
        tmp_path / "휴가.pdf",
        samples.lines("재택근무는 주 이틀까지 할 수 있다.", font=korean_font),
        samples.lines("연차휴가는 입사일을 기준으로 열다섯 날이 주어진다.", font=korean_font),
    )
    async with opened(tmp_path / "home", chunk_tokens=40) as library:
        await library.create_kb(TENANT, "k")
        assert (await add(library, "k", path)).state is DocumentState.SEARCHABLE
        found = await library.search(TENANT, "k", "연차휴가")
    assert found[0].page == 2
    assert found[0].ranks["lexical"] == 1


async def test_a_decomposed_query_finds_what_a_composed_one_finds(tmp_path: Path, korean_font: str) -> None:
    path = samples.write_pdf(tmp_path / "k.pdf", samples.lines("출장비는 월말에 정산한다.", font=korean_font))
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", path)
        decomposed = "\u110e\u116e\u11af\u110c\u1161\u11bc\u1107\u1175"  # 출장비 as macOS types it
        found = await library.search(TENANT, "k", decomposed)
    assert found[0].ranks["lexical"] == 1


async def test_the_same_passage_in_two_documents_is_shown_once(tmp_path: Path, handbook: Path) -> None:
    twin = samples.labelled(tmp_path / "twin.pdf", handbook, roman=1)  # other bytes, same text
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", handbook)
        await add(library, "k", twin)
        found = await library.search(TENANT, "k", "annual leave days", top_k=6)
    assert len({e.text for e in found}) == len(found)


async def test_a_search_within_named_documents_finds_only_theirs(tmp_path: Path, handbook: Path) -> None:
    other = samples.write_pdf(tmp_path / "other.pdf", samples.lines("Leave requests go to the head of the team."))
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", handbook)
        document = await add(library, "k", other)
        found = await library.search(TENANT, "k", "annual leave", document_ids=[document.id])
        assert {e.document_id for e in found} == {document.id}
        assert await library.search(TENANT, "k", "annual leave", document_ids=["doc_of_nobody"]) == []


async def test_a_knowledge_base_without_searchable_documents_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        with pytest.raises(EmptyKnowledgeBase):
            await library.search(TENANT, "k", "anything")
        with pytest.raises(NotFound):
            await library.search(TENANT, "nowhere", "anything")


@pytest.mark.parametrize(("query", "top_k"), [("", None), (" \n\x00 ", None), ("x" * 8001, None), ("x", 0), ("x", 51)])
async def test_a_query_that_cannot_be_searched_is_refused(
    tmp_path: Path, handbook: Path, query: str, top_k: int | None
) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", handbook)
        with pytest.raises(QueryError):
            await library.search(TENANT, "k", query, top_k)


async def test_without_its_embedding_service_a_search_fails_and_citations_go_on_by_words(
    tmp_path: Path, handbook: Path
) -> None:
    embedder = TermEmbedder()
    async with opened(tmp_path, embedder) as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", handbook)
        evidence = await library.search(TENANT, "k", "hotel nights")
        embedder.failures = lambda asked: True
        (citation,) = await library.cite(TENANT, "Hotels are paid up to 140 euros for each night.", evidence)
    assert citation.page == 2


class RefusingEmbedder(TermEmbedder):
    """Refuses once it is told to, as a service does whose key was withdrawn."""

    refuses = False

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        if self.refuses:
            raise EmbedderRefused("The key is wrong.")
        return await super().embed(texts, kind)


async def test_an_embedding_service_that_refuses_costs_no_citation(tmp_path: Path, handbook: Path) -> None:
    embedder = RefusingEmbedder()
    async with opened(tmp_path, embedder) as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", handbook)
        evidence = await library.search(TENANT, "k", "hotel nights")
        embedder.refuses = True
        (citation,) = await library.cite(TENANT, "Hotels are paid up to 140 euros for each night.", evidence)
    assert citation.page == 2


async def test_a_page_is_drawn_with_the_quote_marked(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        evidence = await library.search(TENANT, "k", "hotel nights", top_k=1)
        (citation,) = await library.cite(TENANT, "Hotels are paid up to 140 euros.", evidence)
        plain = await library.render_page(TENANT, document.id, citation.page)
        marked = await library.render_page(TENANT, document.id, citation.page, citation.boxes)
        assert plain.startswith(b"\x89PNG")
        assert marked != plain
        with pytest.raises(NotFound):
            await library.render_page(TENANT, document.id, 4)


async def test_passages_are_had_by_their_page_and_by_what_they_hold_letter_by_letter(
    tmp_path: Path, handbook: Path
) -> None:
    async with opened(tmp_path, TermEmbedder()) as library:
        await library.create_kb(TENANT, "rules")
        document = await add(library, "rules", handbook)
        on_two = await library.passages.on_page(TENANT, "rules", "2")
        assert on_two and {passage.page for passage in on_two} == {2}
        assert await library.passages.on_page(TENANT, "rules", "9") == []
        numbered = await add(library, "rules", samples.labelled(tmp_path / "labelled.pdf", handbook, 1))
        printed = await library.passages.on_page(TENANT, "rules", "1", [numbered.id])
        assert {passage.page for passage in printed} == {2}, "what is printed on a page goes before its number"
        assert {p.page for p in await library.passages.on_page(TENANT, "rules", "3", [numbered.id])} == {3}
        (held,) = await library.passages.holding(TENANT, "rules", "UP TO 140 EUROS", [document.id])
        assert held.page == 2 and "140 euros" in held.text
        assert await library.passages.holding(TENANT, "rules", "up_to") == [], "no character is a wildcard"
        assert await library.passages.holding(TENANT, "rules", "140 euros", ["doc_other"]) == []
        with pytest.raises(NotFound):
            await library.passages.holding("somebody", "rules", "140 euros")
        with pytest.raises(QueryError):
            await library.passages.holding(TENANT, "rules", "x" * 201)
        await library.chunks.set_disabled(TENANT, document.id, held.chunk_id, disabled=True)
        assert await library.passages.holding(TENANT, "rules", "140 euros", [document.id]) == []


async def test_a_page_is_looked_for_in_every_document(tmp_path: Path, handbook: Path) -> None:
    long = samples.lines(*(f"Rule {number} of the yard holds for all who work there by day." for number in range(70)))
    async with opened(tmp_path, TermEmbedder()) as library:
        await library.create_kb(TENANT, "rules")
        first = await add(library, "rules", samples.write_pdf(tmp_path / "long.pdf", long))
        last = await add(library, "rules", handbook)
        found = await library.passages.on_page(TENANT, "rules", "1")
        assert first.chunks > len(found) == MAX_PASSAGES
        assert [each.document_id for each in found].count(last.id) == 1
        assert {each.document_id for each in await library.passages.throughout(TENANT, "rules", [last.id])} == {last.id}
        spread = await library.passages.throughout(TENANT, "rules", [first.id])
        assert len(spread) == MAX_PASSAGES and "Rule 0 " in spread[0].text and "Rule 48 " in spread[-1].text
