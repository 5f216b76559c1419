"""The tables that migrations make are those that the code means."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import sqlite3
from pathlib import Path

from alembic import command

from readahead_retrieval.index.manifest import FORMAT
from readahead_retrieval.store.migrate import alembic_config, migrate
from readahead_retrieval.store.models import Base
from readahead_retrieval.store.session import sqlite_url
from readahead_retrieval.types import Document
from tests.retrieval import pdf_samples as samples
from tests.retrieval.library_parts import TENANT, TermEmbedder, add, opened


def tables(path: Path) -> set[str]:
    database = sqlite3.connect(path)
    try:
        return {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    finally:
        database.close()


def test_an_empty_database_is_brought_to_the_tables_of_the_code(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "a.db")
    migrate(url)
    command.check(alembic_config(url))  # raises when a migration is missing


def test_what_numbers_its_rows_never_gives_a_number_twice_where_the_code_says_so(tmp_path: Path) -> None:
    """Of which Alembic's own comparison knows nothing."""
    path = tmp_path / "a.db"
    migrate(sqlite_url(path))
    database = sqlite3.connect(path)
    made = {
        name for name, sql in database.execute("select name, sql from sqlite_master") if "AUTOINCREMENT" in (sql or "")
    }
    database.close()
    meant = {name for name, table in Base.metadata.tables.items() if table.dialect_options["sqlite"]["autoincrement"]}
    assert made == meant == {"chunks", "generations", "jobs"}


async def test_a_home_whose_ids_were_given_twice_keeps_its_chunks_and_has_its_index_made_anew(
    tmp_path: Path, handbook: Path
) -> None:
    home = tmp_path / "home"
    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        await add(library, "k", handbook)
    path, url = home / "readahead.db", sqlite_url(home / "readahead.db")
    await asyncio.to_thread(command.downgrade, alembic_config(url), "0006")
    before = forget_the_count(path)
    for manifest in (home / "indexes").rglob("manifest.json"):
        as_of_format_2(path, manifest)

    embedder = TermEmbedder()
    async with opened(home, embedder) as library:
        rows = asyncio.to_thread(all_chunks, path)
        assert await rows == before
        assert [e.page for e in await library.search(TENANT, "k", "hotel nights", top_k=1)] == [2]
        assert embedder.asked == 1, "the question's embedding alone"
    (manifest,) = (home / "indexes").rglob("manifest.json")
    assert json.loads(manifest.read_bytes())["format"] == FORMAT > 2
    await asyncio.to_thread(command.check, alembic_config(url))


def forget_the_count(path: Path) -> list[tuple[object, ...]]:
    """Makes the table as 0002 left it. Returns its rows."""
    database = sqlite3.connect(path)
    (sql,) = database.execute("select sql from sqlite_master where name = 'chunks'").fetchone()
    assert "AUTOINCREMENT" in sql
    database.execute("alter table chunks rename to old")
    database.execute(sql.replace(" AUTOINCREMENT", ""))
    database.execute("insert into chunks select * from old")
    database.execute("drop table old")
    database.commit()
    database.close()
    return all_chunks(path)


def all_chunks(path: Path) -> list[tuple[object, ...]]:
    database = sqlite3.connect(path)
    try:
        return list(database.execute("select * from chunks order by id"))
    finally:
        database.close()


def as_of_format_2(path: Path, manifest: Path) -> None:
    """Published so; what it holds is out of the question then."""
    data = manifest.read_bytes().replace(f'"format": {FORMAT}'.encode(), b'"format": 2')
    manifest.write_bytes(data)
    database = sqlite3.connect(path)
    database.execute("update generations set manifest_sha256 = ?", (hashlib.sha256(data).hexdigest(),))
    database.commit()
    database.close()


def test_tables_of_others_in_the_same_database_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = sqlite3.connect(path)
    database.execute("create table tenants (id integer)")
    database.execute("create table alembic_version (version_num varchar(32))")
    database.execute("insert into alembic_version values ('of another package')")
    database.commit()
    database.close()
    migrate(sqlite_url(path))
    command.check(alembic_config(sqlite_url(path)))
    assert {"tenants", "alembic_version", "alembic_version_retrieval", "documents"} <= tables(path)


def test_a_downgrade_leaves_nothing_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    migrate(sqlite_url(path))
    command.downgrade(alembic_config(sqlite_url(path)), "base")
    assert tables(path) <= {"alembic_version_retrieval", "sqlite_sequence"}


async def test_a_home_with_signs_in_its_name_opens(tmp_path: Path) -> None:
    home = tmp_path / "100% of #1? ünï"
    async with opened(home) as library:
        await library.create_kb("a", "k")
    assert "knowledge_bases" in tables(home / "readahead.db")


async def test_a_home_of_the_first_version_keeps_its_documents_and_seals_their_passwords(
    tmp_path: Path, handbook: Path
) -> None:
    locked = samples.locked(tmp_path / "locked.pdf", handbook, user="sesame-4711", owner="owner")
    home = tmp_path / "home"
    async with opened(home) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", locked, password="sesame-4711")
    url = sqlite_url(home / "readahead.db")
    await asyncio.to_thread(command.downgrade, alembic_config(url), "0001")
    database = sqlite3.connect(home / "readahead.db")
    database.execute("update documents set password = 'sesame-4711'")
    database.commit()
    database.close()

    async with opened(home) as library:
        (attachment,) = await library.attachments(TENANT, "k")
        assert (attachment.document, attachment.attributes) == (
            as_of_the_first_version(document, attachment.document),
            {},
        )
        assert [e.page for e in await library.search(TENANT, "k", "hotel nights", top_k=1)] == [2]
        assert (await library.render_page(TENANT, document.id, 1)).startswith(b"\x89PNG")
        kb = await library.get_kb(TENANT, "k")
        assert (kb.last_active_at, kb.metadata, kb.expires_after_days) == (kb.created_at, {}, None)
    await asyncio.to_thread(command.check, alembic_config(url))
    assert "password" not in columns(home / "readahead.db", "documents")


def as_of_the_first_version(document: Document, other: Document) -> Document:
    """It kept no times of a job, and did not say which reader it was."""
    old = dataclasses.replace(document, reader=0, started_at=other.started_at, finished_at=other.finished_at)
    assert old.outdated
    return old


def columns(path: Path, table: str) -> set[str]:
    database = sqlite3.connect(path)
    try:
        return {row[1] for row in database.execute(f"pragma table_info({table})")}
    finally:
        database.close()
