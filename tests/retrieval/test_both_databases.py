"""What the library keeps means the same on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect
from sqlalchemy.ext.asyncio import create_async_engine

from readahead_retrieval.errors import DocumentRemoved, EmptyKnowledgeBase
from readahead_retrieval.ingest.intake import NewFile
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.store import documents, files, jobs, knowledge_bases
from readahead_retrieval.store.blobs import SavedBytes
from readahead_retrieval.store.documents import Wish
from readahead_retrieval.store.migrate import alembic_config, migrate
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Attributes, DocumentState
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, finished, opened, upload


async def tables(url: str) -> set[str]:
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        found = await connection.run_sync(lambda sync: inspect(sync).get_table_names())
    await engine.dispose()
    return set(found)


def test_migrations_make_the_tables_of_the_code_and_take_them_away_again(database_url: str) -> None:
    migrate(database_url)
    command.check(alembic_config(database_url))  # raises when a migration is missing
    assert "chunks" in asyncio.run(tables(database_url))
    command.downgrade(alembic_config(database_url), "base")
    assert asyncio.run(tables(database_url)) <= {"alembic_version_retrieval", "sqlite_sequence"}


async def queue(database: Database, count: int) -> None:
    async with database.writing() as session:
        kb = await knowledge_bases.create(
            session, TENANT, "k", allow_same_name=False, metadata={}, expires_after_days=None
        )
        for number in range(count):
            saved = SavedBytes(1, f"{number:064}")
            file = await files.add(session, TENANT, f"file-{number}", f"{number}.pdf", "assistants", saved)
            row, _ = await documents.add(session, kb.id, Wish(file))
            await jobs.enqueue(session, row.id)


async def test_of_workers_who_claim_jobs_at_once_each_gets_others(database_url: str) -> None:
    await asyncio.to_thread(migrate, database_url)
    workers = [Database(database_url) for _ in range(4)]
    await queue(workers[0], 40)
    claimed: list[str] = []

    async def work(database: Database) -> None:
        while True:
            async with database.writing() as session:
                job = await jobs.claim(session)
            if job is None:
                return
            claimed.append(job.document_id)

    await asyncio.gather(*map(work, workers))
    for database in workers:
        await database.close()
    assert len(claimed) == len(set(claimed)) == 40


def tagged(wanted: str) -> Callable[[Attributes], bool]:
    return lambda attributes: attributes.get("tag") == wanted


async def test_a_document_is_found_filtered_kept_over_a_restart_and_removed(
    database_url: str, tmp_path: Path, handbook: Path
) -> None:
    other = samples.write_pdf(tmp_path / "other.pdf", samples.lines("Hotels by the sea are booked by the office."))
    home = tmp_path / "home"
    async with opened(home, database_url=database_url) as library:
        await library.create_kb(TENANT, "k", metadata={"purpose": "ü 한국어"})
        first = await library.attach(
            TENANT, "k", NewFile(await upload(library, handbook), attributes={"tag": "a", "n": 1.5})
        )
        document = await finished(library, first.document.id)
        assert document.state is DocumentState.SEARCHABLE
        second = await library.attach(TENANT, "k", NewFile(await upload(library, other), attributes={"tag": "b"}))
        assert (await finished(library, second.document.id)).state is DocumentState.SEARCHABLE

    async with opened(home, database_url=database_url) as library:
        assert (await library.get_kb(TENANT, "k")).metadata == {"purpose": "ü 한국어"}
        only = await library.matching(TENANT, "k", tagged("b"))
        assert only == [second.document.id]
        assert {e.document for e in await library.search(TENANT, "k", "hotel nights", document_ids=only)} == {
            "other.pdf"
        }
        found = await library.search(TENANT, "k", "hotel nights", top_k=1)
        assert (found[0].document, found[0].page) == ("handbook.pdf", 2)
        citations = await library.cite(TENANT, "Hotels are paid up to 140 euros for each night.", found)
        assert citations[0].boxes
        chunk = (await library.chunks.list(TENANT, document.id))[0]
        await library.chunks.set_disabled(TENANT, document.id, chunk.id, disabled=True)
        found = await library.search(TENANT, "k", chunk.text, top_k=6)
        assert chunk.id not in {evidence.chunk_id for evidence in found}
        await library.remove_document(TENANT, document.id)
        with pytest.raises(DocumentRemoved):
            await library.get_document(TENANT, document.id)
        await library.files.delete(TENANT, second.file_id)
        with pytest.raises(EmptyKnowledgeBase):
            await library.search(TENANT, "k", "hotel nights")


async def test_the_same_bytes_sent_twice_at_once_are_one_document(
    database_url: str, tmp_path: Path, handbook: Path
) -> None:
    async with opened(tmp_path / "home", database_url=database_url) as library:
        await library.create_kb(TENANT, "k")
        sent = [await upload(library, handbook, name=f"{n}.pdf") for n in range(6)]
        added = await asyncio.gather(*(library.add_document(TENANT, "k", file_id) for file_id in sent))
        assert len({document.id for document in added}) == 1
        assert (await finished(library, added[0].id)).state is DocumentState.SEARCHABLE
        assert len(await library.attachments(TENANT, "k")) == 6


async def test_a_failed_job_is_tried_again(database_url: str, tmp_path: Path, handbook: Path) -> None:
    embedder = TermEmbedder()
    embedder.failures = lambda asked: True
    async with opened(tmp_path / "home", embedder, database_url=database_url, embed_attempts=2) as library:
        await library.create_kb(TENANT, "k")
        failed = await add(library, "k", handbook)
        assert (failed.state, failed.error_code) == (DocumentState.FAILED, "embedder_unavailable")
        embedder.failures = lambda asked: False
        await library.jobs.retry(TENANT, (await library.jobs.list(TENANT))[0].id)
        assert (await finished(library, failed.id)).state is DocumentState.SEARCHABLE


def test_a_url_of_a_server_needs_no_driver_named() -> None:
    for url in ("postgresql://me:secret@db/readahead", "postgres://me:secret@db/readahead"):
        settings = RetrievalSettings(database_url=url)
        assert settings.database_url == "postgresql+asyncpg://me:secret@db/readahead"
    assert RetrievalSettings().database_url == ""
