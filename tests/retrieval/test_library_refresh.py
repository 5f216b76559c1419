"""Documents that an older reader read: told as such, and read anew beside the passages that serve meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import pytest

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import DocumentRemoved, EmptyKnowledgeBase
from readahead_retrieval.library import Library
from readahead_retrieval.types import Citation, Document, DocumentState, Job
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, opened

TEXTS = ("The pump weighs 41 kilograms.", "Its oil is changed after 600 hours.", "Spare gaskets are kept in room 7.")
FILLER = ["What else was written there has nothing to do with it and only fills the page."] * 3
"""So that each page is a passage of its own."""


class Gated(TermEmbedder):
    """Embeds passages once it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = asyncio.Event()

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        if kind == "passage":
            await self.let.wait()
        return await super().embed(texts, kind)


async def made_by_an_older_reader(tmp_path: Path) -> tuple[Path, Document, list[Citation]]:
    """A home whose one document an older reader read, with letters of its own; and what a chat then cited of it."""
    home = tmp_path / "home"
    pdf = samples.write_pdf(tmp_path / "pump.pdf", *(samples.lines(text, *FILLER) for text in TEXTS))
    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", pdf)
        evidence = await library.search(TENANT, "k", "pump kilograms", top_k=1)
        cited = await library.cite(TENANT, TEXTS[0], evidence)
        gaskets = next(c for c in await library.chunks.list(TENANT, document.id) if "gaskets" in c.text)
        await library.chunks.set_disabled(TENANT, document.id, gaskets.id, disabled=True)
    database = sqlite3.connect(home / "readahead.db")
    database.execute("update documents set reader = 0")
    for table in ("pages", "chunks"):
        database.execute(f"update {table} set text = replace(text, 'hours', 'hours12')")
    database.commit()
    database.close()
    return home, document, cited


async def ended(library: Library, job_id: str) -> Job:
    async with asyncio.timeout(60):
        return [job async for job in library.jobs.watch(TENANT, job_id)][-1]


async def reaches(library: Library, job_id: str, state: DocumentState) -> None:
    async with asyncio.timeout(60):
        async for job in library.jobs.watch(TENANT, job_id):
            if job.document.state is state:
                return


async def found(library: Library, query: str) -> list[tuple[str, str]]:
    """The document and the first line of the best passage."""
    return [(e.document_id, e.text.partition("\n")[0]) for e in await library.search(TENANT, "k", query, top_k=1)]


async def test_old_passages_serve_until_the_new_ones_stand_and_a_crash_between_loses_nothing(tmp_path: Path) -> None:
    home, document, cited = await made_by_an_older_reader(tmp_path)
    old = "Its oil is changed after 600 hours12."
    async with opened(home, Gated()) as library:
        assert (await library.get_document(TENANT, document.id)).outdated
        [job] = await library.jobs.refresh(TENANT, "k")
        await reaches(library, job.id, DocumentState.EMBEDDING)
        assert await found(library, "oil changed") == [(document.id, old)]
        [listed] = await library.list_documents(TENANT, "k")
        assert (listed.id, listed.state, listed.outdated) == (document.id, DocumentState.SEARCHABLE, True)
        kb = await library.get_kb(TENANT, "k")
        assert (kb.documents, kb.searchable, kb.files.in_progress) == (1, 1, 0)
        assert [job.id for job in await library.jobs.refresh(TENANT, "k")] == [job.id]  # once is enough
        [whole] = await library.texts.of_kb(TENANT, "k")
        assert whole.text.count("hours12") == 1
    async with opened(home) as library:
        assert (await ended(library, job.id)).document.state is DocumentState.SEARCHABLE
        now = await library.get_document(TENANT, document.id)
        assert (now.outdated, now.state, now.revision) == (False, DocumentState.SEARCHABLE, document.revision + 2)
        assert await found(library, "oil changed") == [(document.id, TEXTS[1])]
        assert [d.id for d in await library.list_documents(TENANT, "k")] == [document.id]
        assert await library.jobs.refresh(TENANT, "k") == []

        # The index holds the new passages alone.
        with closing(sqlite3.connect(home / "readahead.db")) as database:
            assert database.execute("select chunks from generations").fetchall() == [(now.chunks,)]

        # What a person disabled stays so, and what an old chat cites is where it was.
        assert all(text != TEXTS[2] for _, text in await found(library, "spare gaskets room"))
        [citation] = cited
        [page] = await library.texts.pages(TENANT, citation.document_id, citation.page, citation.page)
        assert citation.quote in page.text
        assert await library.render_page(TENANT, citation.document_id, citation.page, citation.boxes)


async def test_a_disabled_passage_that_reads_otherwise_now_is_told(tmp_path: Path) -> None:
    home, document, _ = await made_by_an_older_reader(tmp_path)
    database = sqlite3.connect(home / "readahead.db")
    database.execute("update chunks set text = replace(text, 'gaskets', 'gaskets12') where disabled")
    database.commit()
    database.close()
    async with opened(home) as library:
        [job] = await library.jobs.refresh(TENANT, "k")
        assert (await ended(library, job.id)).document.state is DocumentState.SEARCHABLE
        assert "disabled" in " ".join((await library.get_document(TENANT, document.id)).notes)


async def test_a_file_that_cannot_be_read_any_more_leaves_its_document_as_it_was(tmp_path: Path) -> None:
    home, document, _ = await made_by_an_older_reader(tmp_path)
    async with opened(home) as library:
        path = await library.files.path(TENANT, document.file_id)
        whole = path.read_bytes()
        path.write_bytes(b"%PDF-1.7 and no more")
        [job] = await library.jobs.refresh(TENANT, "k")
        failed = (await ended(library, job.id)).document
        assert (failed.id, failed.state, failed.error_code) == (document.id, DocumentState.FAILED, "corrupt")
        assert (await library.get_document(TENANT, document.id)).outdated
        assert (await found(library, "pump kilograms"))[0] == (document.id, TEXTS[0])
        path.write_bytes(whole)
        assert (await library.jobs.retry(TENANT, job.id)).document.state is DocumentState.QUEUED
        assert not (await ended(library, job.id)).document.outdated


async def test_a_reading_is_cancelled_alone_and_removed_with_its_document(tmp_path: Path) -> None:
    home, document, _ = await made_by_an_older_reader(tmp_path)
    embedder = Gated()
    async with opened(home, embedder) as library:
        [job] = await library.jobs.refresh(TENANT, "k")
        await reaches(library, job.id, DocumentState.EMBEDDING)
        cancelled = await library.jobs.cancel(TENANT, job.id)
        assert (cancelled.document.state, cancelled.document.outdated) == (DocumentState.SEARCHABLE, True)
        assert (await found(library, "pump kilograms"))[0] == (document.id, TEXTS[0])

        await library.jobs.refresh(TENANT, "k")
        await reaches(library, job.id, DocumentState.EMBEDDING)
        await library.remove_document(TENANT, document.id)
        embedder.let.set()
        with suppress(EmptyKnowledgeBase):
            assert await found(library, "pump kilograms") == []
        assert (await library.get_kb(TENANT, "k")).documents == 0
        with pytest.raises(DocumentRemoved):
            await library.jobs.get(TENANT, job.id)


async def test_every_document_is_read_anew_where_that_is_asked_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", samples.write_pdf(tmp_path / "a.pdf", samples.lines(TEXTS[0])))
        assert await library.jobs.refresh(TENANT, "k") == []
        [job] = await library.jobs.refresh(TENANT, "k", everything=True)
        assert (await ended(library, job.id)).document.id == document.id
        assert (await library.get_document(TENANT, document.id)).revision == document.revision + 1
