"""Whether writing works is known before somebody's upload finds out."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from readahead_retrieval.errors import DocumentRemoved, NotFound
from readahead_retrieval.store import documents
from readahead_retrieval.store.migrate import migrate
from readahead_retrieval.store.probe import WriteProbe
from readahead_retrieval.store.session import Database
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, add, opened, until


async def test_a_database_that_takes_writes_is_told_as_such(database_url: str) -> None:
    await asyncio.to_thread(migrate, database_url)
    database = Database(database_url)
    probe = WriteProbe(database, every_s=0.01)
    probe.start()
    for _ in range(3):
        await asyncio.sleep(0.02)
        assert probe.failure() is None
    await probe.close()
    await database.close()


async def test_a_database_that_another_process_locks_is_told_until_it_lets_go(tmp_path: Path) -> None:
    async with opened(tmp_path) as library:
        database = Database(f"sqlite+aiosqlite:///{tmp_path}/readahead.db")
        probe = WriteProbe(database, every_s=0.01, late_s=0.05)
        other = sqlite3.connect(tmp_path / "readahead.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        probe.start()
        await until(lambda: probe.failure() is not None)
        assert "lock" in (probe.failure() or "")
        assert library.storage_failure() is None, "its own probe is patient"
        other.execute("COMMIT")
        other.close()
        await until(lambda: probe.failure() is None)
        await probe.close()
        await database.close()


async def test_a_database_that_refuses_a_write_is_told_with_the_reason(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/a.db"
    await asyncio.to_thread(migrate, url)
    with sqlite3.connect(tmp_path / "a.db") as raw:
        raw.execute("drop table write_probe")
    raw.close()
    database = Database(url)
    probe = WriteProbe(database, every_s=0.01)
    probe.start()
    await until(lambda: probe.failure() is not None)
    assert "OperationalError" in (probe.failure() or "")
    await probe.close()
    await database.close()


async def test_removed_documents_are_remembered_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "REMOVED_KEPT", 2)
    removed: list[str] = []
    async with opened(tmp_path / "home") as library:
        await library.create_kb(TENANT, "k")
        for number in range(3):
            pdf = samples.write_pdf(tmp_path / f"{number}.pdf", samples.lines(f"Room {number} is let to nobody."))
            document = await add(library, "k", pdf)
            await library.remove_document(TENANT, document.id)
            removed.append(document.id)
        with pytest.raises(NotFound) as forgotten:
            await library.get_document(TENANT, removed[0])
        assert not isinstance(forgotten.value, DocumentRemoved)
        for document_id in removed[1:]:
            with pytest.raises(DocumentRemoved):
                await library.get_document(TENANT, document_id)
