"""What an answer over a knowledge base stands on, where its question names a page or a file."""

from __future__ import annotations

from pathlib import Path

from readahead_agents.answering.answer import not_covered
from readahead_platform.gateway.library_source import LibrarySource
from readahead_platform.gateway.selection import Selection
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, add, opened


async def test_a_page_or_a_file_that_is_named_is_what_a_search_gives(tmp_path: Path, manual: Path) -> None:
    policy = samples.write_pdf(
        tmp_path / "travel-and-expense-policy.pdf",
        samples.lines("The travel office books all hotels."),
        samples.lines("Bicycles are paid with 12 cents for each kilometre."),
        samples.lines("Receipts are kept for seven years in the archive."),
        samples.lines("The policy is looked at anew each spring."),
    )
    async with opened(tmp_path) as library:
        kb = await library.create_kb(TENANT, "papers")
        of_manual, of_policy = await add(library, kb.id, manual), await add(library, kb.id, policy)
        source = LibrarySource(library, TENANT, kb, score_floor=0.85)

        for question in ("What does page 2 of the travel policy say?", "Page 2 of travel-and-expense-policy.pdf?"):
            found = await source.search(question)
            assert {(each.document_id, each.page) for each in found} == {(of_policy.id, 2)}
            assert [each.text for each in found] == ["Bicycles are paid with 12 cents for each kilometre."]
            assert source.covers(question, found) and source.missing_page(question) is None
        both = await source.search("What does page 2 say?")
        assert {each.document_id for each in both} == {of_manual.id, of_policy.id}

        assert await source.search("What does page 2 of the-travel-and-expense-policy.pdf say?") == []

        lacking = "What does page 4 of the manual say?"
        assert await source.search(lacking) == []
        *_, refused = not_covered(source, lacking, [])
        assert refused.answer.endswith("There is no page 4 in manual.pdf.") and not refused.covered

        summed = await source.search("Summarise travel-and-expense-policy.pdf.")
        assert (summed[0].page, summed[-1].last_page) == (1, 4) and source.covers("Summarise it.", summed)
        oil = await source.search("What does travel-and-expense-policy.pdf say about the oil of the gearbox?")
        assert {each.document_id for each in oil} == {of_policy.id}

        only = LibrarySource(library, TENANT, kb, 0.85, selection=Selection((of_manual.id,)))
        assert {each.document_id for each in await only.search("Summarise travel-and-expense-policy.pdf.")} <= {
            of_manual.id
        }

        follow_up = "And on page 3?"
        whole = f"What does page 2 of the travel policy say? {follow_up}"
        leaning = LibrarySource(library, TENANT, kb, 0.85, standalone={follow_up: whole})
        for query in (whole, follow_up):
            assert {(each.document_id, each.page) for each in await leaning.search(query)} == {(of_policy.id, 3)}
