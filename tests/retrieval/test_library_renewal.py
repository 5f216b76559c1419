"""Another embedding model, or other sizes of chunks: what answers goes on until all of it has been made anew."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import EmbedderRefused
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, DocumentState, Job
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, finished, opened, upload

TEXTS = {
    "pumps.pdf": "The pump of the well weighs 41 kilograms.",
    "hotels.pdf": "Hotels are paid up to 140 euros for each night.",
    "leave.pdf": "Annual leave is lost at the end of March.",
}


class Choosy(TermEmbedder):
    """Another model, which refuses passages that hold a word."""

    def __init__(self, refused: str = "\0") -> None:
        super().__init__("terms-2")
        self.refused = refused

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        if kind == "passage" and any(self.refused in text for text in texts):
            raise EmbedderRefused("The tests refuse this one.")
        return await super().embed(texts, kind)


class Narrow(TermEmbedder):
    """Another model, with a window of some 20 tokens."""

    max_tokens = 22

    def __init__(self) -> None:
        super().__init__("terms-narrow")


async def ingested(home: Path) -> dict[str, Document]:
    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        drawn = {name: samples.write_pdf(home.parent / name, samples.lines(text)) for name, text in TEXTS.items()}
        return {name: await add(library, "k", path) for name, path in drawn.items()}


async def job_of(library: Library, document: Document, wanted: Callable[[Job], bool]) -> None:
    job_id = document.id.replace("doc_", "job_")
    async with asyncio.timeout(60):
        async for job in library.jobs.watch(TENANT, job_id):
            if wanted(job):
                return


async def found(library: Library) -> dict[str, list[str]]:
    """Each text's own document where a search for it finds that first, with the engines that did."""
    best = {name: await library.search(TENANT, "k", text, top_k=1) for name, text in TEXTS.items()}
    return {name: sorted(e.ranks) for name, evidence in best.items() for e in evidence if e.document == name}


WORDS = {name: ["lexical"] for name in TEXTS}
BOTH = {name: ["dense", "lexical"] for name in TEXTS}


async def test_one_document_that_a_new_model_fails_on_takes_no_other_out_of_answers(tmp_path: Path) -> None:
    home = tmp_path / "home"
    held = await ingested(home)
    async with opened(home, Choosy("Hotels")) as library:
        for name in ("pumps.pdf", "leave.pdf"):
            await job_of(library, held[name], lambda job: job.document.state is DocumentState.INDEXING)
        await job_of(library, held["hotels.pdf"], lambda job: job.document.state is DocumentState.FAILED)
        new = samples.write_pdf(tmp_path / "new.pdf", samples.lines("Bicycles stand behind the house."))
        added = await library.add_document(TENANT, "k", await upload(library, new))
        await job_of(library, added, lambda job: job.document.state is DocumentState.INDEXING)
        assert await found(library) == WORDS
        listed = await library.list_documents(TENANT, "k")
        assert [d.state for d in listed if d.name in TEXTS] == [DocumentState.SEARCHABLE] * 3

        # What answers can be made anew at any moment: the old vectors are there, and removals are followed.
        for index in home.glob("indexes/*/*/dense.faiss"):
            index.write_bytes(b"")
        assert await found(library) == WORDS
    async with opened(home, Choosy()) as library:  # a start tries again what failed
        assert (await finished(library, added.id)).state is DocumentState.SEARCHABLE
        assert await found(library) == BOTH
        assert {d.id for d in await library.list_documents(TENANT, "k")} == {added.id, *(d.id for d in held.values())}


async def test_a_model_that_is_away_is_waited_for_while_the_old_index_answers(tmp_path: Path) -> None:
    home = tmp_path / "home"
    held = await ingested(home)
    async with opened(home) as library:
        (chunk,) = await library.chunks.list(TENANT, held["leave.pdf"].id)
        await library.chunks.set_disabled(TENANT, chunk.document_id, chunk.id, disabled=True)
        disabled = await library.get_document(TENANT, chunk.document_id)
    away = Choosy()
    away.failures = lambda asked: asked <= 12
    async with opened(home, away, embed_attempts=1) as library:
        assert sorted(await found(library)) == ["hotels.pdf", "pumps.pdf"]
        for document in held.values():
            await job_of(library, document, lambda job: job.document.finished)
        assert await found(library) == {name: BOTH[name] for name in ("hotels.pdf", "pumps.pdf")}
        now = await library.get_document(TENANT, disabled.id)
        assert now.revision == disabled.revision, "its text is the same, and packs of it are"


async def test_what_waited_for_an_index_or_had_lost_its_file_is_embedded_anew_too(tmp_path: Path) -> None:
    held = await ingested(tmp_path / "home")
    async with opened(tmp_path / "home") as library:
        path = await library.files.path(TENANT, held["hotels.pdf"].file_id)
        await asyncio.to_thread(path.write_bytes, b"%PDF-1.7 and no more")
        await library.jobs.refresh(TENANT, "k", everything=True)
        await job_of(library, held["hotels.pdf"], lambda job: job.document.state is DocumentState.FAILED)
    with sqlite3.connect(tmp_path / "home" / "readahead.db") as database:
        database.execute("update documents set state = 'indexing', published = 0 where name = 'pumps.pdf'")
    database.close()
    async with opened(tmp_path / "home", Choosy()) as library:
        assert (await finished(library, held["pumps.pdf"].id)).state is DocumentState.SEARCHABLE
        assert await found(library) == BOTH


async def test_chunks_are_cut_anew_for_another_window_from_the_pages_that_were_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    text = (
        "Every pump is oiled in May.",
        "Valves are closed before that.",
        "Filters are rinsed every week.",
        "The frame is painted in June.",
        "Two people lift the engine.",
        "Old cans go to the yard.",
    )
    pdf = samples.write_pdf(tmp_path / "manual.pdf", samples.lines(*text), samples.lines("Gaskets lie in room 7."))
    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", pdf)
        whole = await library.chunks.list(TENANT, document.id)
        (gaskets,) = [chunk for chunk in whole if "Gaskets" in chunk.text]
        await library.chunks.set_disabled(TENANT, document.id, gaskets.id, disabled=True)
        (await library.files.path(TENANT, document.file_id)).unlink()  # nothing reads it again
    async with opened(home, Narrow()) as library:
        await job_of(library, document, lambda job: job.document.finished)
        cut = await library.chunks.list(TENANT, document.id)
        assert len(cut) > len(whole)
        assert max(len(chunk.text) for chunk in cut) < max(len(chunk.text) for chunk in whole)
        assert any(chunk.disabled for chunk in cut)
        assert all(chunk.disabled == ("Gaskets" in chunk.text) for chunk in cut)
        now = await library.get_document(TENANT, document.id)
        assert (now.id, now.pages, now.chunks) == (document.id, 2, len(cut))
        best = (await library.search(TENANT, "k", "valves closed", top_k=1))[0]
        assert (best.document_id, best.page, sorted(best.ranks)) == (document.id, 1, ["dense", "lexical"])
    async with opened(home, Narrow()) as library:  # once is enough
        assert [chunk.id for chunk in await library.chunks.list(TENANT, document.id)] == [chunk.id for chunk in cut]
        assert [job.document.state for job in await library.jobs.list(TENANT)] == [DocumentState.SEARCHABLE]


async def test_what_stands_within_what_was_disabled_stays_out_of_answers_however_it_is_cut(tmp_path: Path) -> None:
    home = tmp_path / "home"
    lines = [f"Room {n} belongs to department {n * 7}, and is cleaned on Mondays by the night shift." for n in range(6)]
    pdf = samples.write_pdf(tmp_path / "rooms.pdf", samples.lines(*lines))
    async with opened(home, chunk_tokens=32) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", pdf)
        chunks = await library.chunks.list(TENANT, document.id)
        secret = chunks[len(chunks) // 2]
        await library.chunks.set_disabled(TENANT, document.id, secret.id, disabled=True)
        revision = (await library.get_document(TENANT, document.id)).revision
    async with opened(home, chunk_tokens=120) as library:
        await job_of(library, document, lambda job: job.document.finished)
        cut = await library.chunks.list(TENANT, document.id)
        assert all(chunk.disabled for chunk in cut if secret.text[:20] in chunk.text)
        assert any(chunk.disabled for chunk in cut)
        now = await library.get_document(TENANT, document.id)
        assert now.revision == revision + 1
        assert "disabled" in now.notes[-1]
