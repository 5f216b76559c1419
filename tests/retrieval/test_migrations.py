"""The tables that migrations make are those that the code means."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from alembic import command

from readahead_retrieval.store.migrate import alembic_config, migrate
from readahead_retrieval.store.session import sqlite_url
from tests.retrieval.library_parts import opened


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
