"""Jobs: what a user finds after a cancellation, a retry, a new version, a full disk, a crowd."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from sqlalchemy import Connection, Engine, event

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import DocumentRemoved, EmptyKnowledgeBase, InvalidState, NotFound
from readahead_retrieval.ingest.intake import NewFile
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, DocumentState, Job
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, finished, opened, upload
from tests.retrieval.reading import children, endless_pdf, started


def job_id(document: Document) -> str:
    return document.id.replace("doc_", "job_")


class StuckOnce(TermEmbedder):
    """An embedding service that never answers its first question, and all others."""

    async def embed(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> Vectors:
        if self.asked == 0:
            self.asked = 1
            await asyncio.Event().wait()
        return await super().embed(texts, kind)


def sheet(path: Path, text: str) -> Path:
    return samples.write_pdf(path, samples.lines(text))


async def reaches(library: Library, document: Document, state: DocumentState) -> None:
    async with asyncio.timeout(60):
        async for job in library.jobs.watch(TENANT, job_id(document)):
            if job.document.state is state:
                return
    raise AssertionError(f"it ended without being {state}")


async def three_queued(library: Library, folder: Path) -> list[Document]:
    """One document that waits for the embedding service, and two behind it."""
    await library.create_kb(TENANT, "k")
    added = []
    for number in range(3):
        path = sheet(folder / f"{number}.pdf", f"Room {number} belongs to department {number * 7}.")
        added.append(await library.add_document(TENANT, "k", await upload(library, path)))
    await reaches(library, added[0], DocumentState.EMBEDDING)
    return added


async def test_a_job_tells_its_place_in_the_queue(tmp_path: Path) -> None:
    async with opened(tmp_path / "home", StuckOnce(), ingest_concurrency=1) as library:
        added = await three_queued(library, tmp_path)
        jobs = await library.jobs.list(TENANT)
        assert [(job.document.id, job.position) for job in jobs] == [
            (added[0].id, None),
            (added[1].id, 1),
            (added[2].id, 2),
        ]
        first, second = jobs[0].document, jobs[1].document
        assert (first.pages_done, first.started_at is None, first.finished_at) == (1, False, None)
        assert (second.state, second.started_at) == (DocumentState.QUEUED, None)
        assert await library.jobs.get(TENANT, jobs[2].id) == jobs[2]


async def test_a_reader_that_is_stopped_from_outside_costs_its_document_and_not_those_behind_it(tmp_path: Path) -> None:
    long = endless_pdf(tmp_path / "long.pdf", pages=3)
    short = sheet(tmp_path / "short.pdf", "Room 7 belongs to department 49.")
    async with opened(tmp_path / "home", ingest_concurrency=1, read_timeout_s=6) as library:
        await library.create_kb(TENANT, "k")
        first = await library.add_document(TENANT, "k", await upload(library, long))
        second = await library.add_document(TENANT, "k", await upload(library, short))
        await started(1)
        (reader,) = children()
        os.kill(reader, signal.SIGSTOP)
        stopped = await finished(library, first.id)
        assert (stopped.state, stopped.error_code) == (DocumentState.FAILED, "timed_out")
        assert reader not in children(), "it is gone, stopped as it was"
        assert (await finished(library, second.id)).state is DocumentState.SEARCHABLE


async def test_a_cancelled_job_makes_room_at_once_and_its_document_is_never_found(tmp_path: Path) -> None:
    async with opened(tmp_path / "home", StuckOnce(), ingest_concurrency=1) as library:
        first, second, third = await three_queued(library, tmp_path)
        cancelled = await library.jobs.cancel(TENANT, job_id(first))
        waiting = await library.jobs.cancel(TENANT, job_id(third))
        for job in (cancelled, waiting):
            assert (job.document.state, job.position) == (DocumentState.CANCELLED, None)
            assert job.document.finished_at is not None
        # Without the interruption the only worker would wait for ever.
        assert (await finished(library, second.id)).state is DocumentState.SEARCHABLE
        found = await library.search(TENANT, "k", "Room department")
        assert {evidence.document_id for evidence in found} == {second.id}
        kb = await library.get_kb(TENANT, "k")
        assert (kb.files.cancelled, kb.files.completed, kb.files.in_progress) == (2, 1, 0)


async def test_a_cancelled_job_is_retried_from_where_it_stood(tmp_path: Path, handbook: Path) -> None:
    embedder = TermEmbedder()
    embedder.failures = lambda asked: asked > 1
    async with opened(tmp_path, embedder, embed_backoff_s=60.0) as library:
        await library.create_kb(TENANT, "k")
        added = await library.add_document(TENANT, "k", await upload(library, handbook))
        async with asyncio.timeout(60):
            async for document in library.watch(TENANT, added.id):
                if document.chunks_done:
                    break
        stopped = (await library.jobs.cancel(TENANT, job_id(added))).document
        embedder.failures, asked = (lambda asked: False), embedder.asked
        job = await library.jobs.retry(TENANT, job_id(added))
        assert (job.document.error_code, job.document.finished_at) == (None, None)
        assert (await finished(library, added.id)).state is DocumentState.SEARCHABLE
        assert embedder.asked - asked == -(-(stopped.chunks - stopped.chunks_done) // 2)


async def test_a_finished_job_is_not_cancelled_and_one_under_way_is_not_retried(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        for act in (library.jobs.cancel, library.jobs.retry):
            with pytest.raises(InvalidState, match="searchable"):
                await act(TENANT, job_id(document))
        assert await library.search(TENANT, "k", "hotel nights")
        with pytest.raises(NotFound):
            await library.jobs.get(TENANT, document.id)  # a document's id is no job's


async def test_a_retry_reads_a_file_anew_that_was_at_fault(tmp_path: Path, handbook: Path) -> None:
    locked = samples.locked(tmp_path / "locked.pdf", handbook, user="sesame", owner="owner")
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        failed = await add(library, "k", locked)
        assert (await library.jobs.get(TENANT, job_id(failed))).document.error_code == "password_required"
        await library.jobs.retry(TENANT, job_id(failed), "sesame")
        assert (await finished(library, failed.id)).state is DocumentState.SEARCHABLE


async def test_watching_a_job_shows_it_move_up_the_queue(tmp_path: Path) -> None:
    async with opened(tmp_path / "home", StuckOnce(), ingest_concurrency=1) as library:
        first, _, third = await three_queued(library, tmp_path)
        seen: list[Job] = []
        async with asyncio.timeout(60):
            async for job in library.jobs.watch(TENANT, job_id(third)):
                if not seen:
                    await library.jobs.cancel(TENANT, job_id(first))
                seen.append(job)
        assert {job.position for job in seen} >= {2, None}
        assert seen[-1].document.state is DocumentState.SEARCHABLE


async def test_a_removed_document_frees_the_worker_that_has_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "home", StuckOnce(), ingest_concurrency=1) as library:
        first, second, _ = await three_queued(library, tmp_path)
        await library.files.delete(TENANT, first.file_id)
        assert (await finished(library, second.id)).state is DocumentState.SEARCHABLE
        with pytest.raises(DocumentRemoved):
            await library.jobs.get(TENANT, job_id(first))


async def test_the_old_version_answers_until_the_new_one_is_searchable(tmp_path: Path) -> None:
    old = sheet(tmp_path / "rules.pdf", "A night in a hotel may cost 140 euros.")
    (tmp_path / "new").mkdir()
    new = sheet(tmp_path / "new" / "rules.pdf", "A night in a hotel may cost 180 euros.")
    embedder = TermEmbedder()
    async with opened(tmp_path / "home", embedder, embed_attempts=1) as library:
        await library.create_kb(TENANT, "k")
        before = await add(library, "k", old)
        asked = embedder.asked
        embedder.failures = lambda number: number == asked + 1
        file_id = await upload(library, new)
        after = (await library.attach(TENANT, "k", NewFile(file_id, replaces=True))).document
        assert (await finished(library, after.id)).state is DocumentState.FAILED
        assert ["140" in e.text for e in await library.search(TENANT, "k", "hotel night euros")] == [True]

        await library.jobs.retry(TENANT, job_id(after))
        assert (await finished(library, after.id)).state is DocumentState.SEARCHABLE
        assert ["180" in e.text for e in await library.search(TENANT, "k", "hotel night euros")] == [True]
        with pytest.raises(DocumentRemoved):
            await library.get_document(TENANT, before.id)
        assert [a.file_id for a in await library.attachments(TENANT, "k")] == [file_id]


async def test_without_being_told_to_replace_files_of_one_name_stay_side_by_side(tmp_path: Path) -> None:
    one = sheet(tmp_path / "invoice.pdf", "Invoice of March: pumps for 140 euros.")
    (tmp_path / "april").mkdir()
    two = sheet(tmp_path / "april" / "invoice.pdf", "Invoice of April: valves for 180 euros.")
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        for path in (one, two):
            await add(library, "k", path)
        assert {e.document_id for e in await library.search(TENANT, "k", "invoice euros")} == {
            d.id for d in await library.list_documents(TENANT, "k")
        }


async def test_eighty_files_at_once_all_become_searchable(tmp_path: Path) -> None:
    paths = [sheet(tmp_path / f"{n}.pdf", f"Room {n} belongs to department {n * 7}.") for n in range(80)]
    async with opened(tmp_path / "home", ingest_concurrency=4) as library:
        await library.create_kb(TENANT, "k")
        files = await asyncio.gather(*(upload(library, path) for path in paths))
        batch = await library.batches.add(TENANT, "k", [NewFile(file_id) for file_id in files])
        assert batch.files.total == 80
        for attachment in await library.batches.files(TENANT, "k", batch.id):
            await finished(library, attachment.document.id)
        assert (await library.batches.get(TENANT, "k", batch.id)).files.completed == 80
        found = await library.search(TENANT, "k", "Room 77 department 539", top_k=1)
        assert found[0].document == "77.pdf"


async def test_a_batch_with_a_file_that_is_not_there_queues_none(tmp_path: Path, handbook: Path) -> None:
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        with pytest.raises(NotFound, match="file-none"):
            await library.batches.add(TENANT, "k", [NewFile(await upload(library, handbook)), NewFile("file-none")])
        assert await library.attachments(TENANT, "k") == []


@contextmanager
def bounded_database(pages: list[int]) -> Iterator[None]:
    """SQLite refuses to grow beyond so many pages, as on a full disk; empty for no bound."""

    def bound(connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages[0] if pages else 2**31}")

    event.listen(Engine, "begin", bound)
    try:
        yield
    finally:
        event.remove(Engine, "begin", bound)


async def test_a_full_disk_fails_the_job_with_its_reason_and_a_retry_finishes_it(tmp_path: Path) -> None:
    drawn = [samples.lines(*(f"Room {n * 50 + m} belongs to department {n}." for m in range(40))) for n in range(12)]
    path = samples.write_pdf(tmp_path / "rooms.pdf", *drawn)
    bound: list[int] = []
    with bounded_database(bound):
        async with opened(tmp_path / "home") as library:
            await library.create_kb(TENANT, "k")
            added = await library.add_document(TENANT, "k", await upload(library, path))
            bound.append(1)  # SQLite takes the present size for it
            failed = await finished(library, added.id)
            assert (failed.state, failed.error_code, failed.error_retryable) == (
                DocumentState.FAILED,
                "disk_full",
                True,
            )
            assert "free some space" in (failed.error_message or "")
            with pytest.raises(EmptyKnowledgeBase):
                await library.search(TENANT, "k", "hotel")
            bound.clear()
            await library.jobs.retry(TENANT, job_id(failed))
            assert (await finished(library, added.id)).state is DocumentState.SEARCHABLE
