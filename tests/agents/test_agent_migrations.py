"""The agents' tables that migrations make are those that the code means."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from readahead_agents.store.migrate import migrate
from readahead_agents.store.tables import Base
from readahead_retrieval.store.session import sqlite_url


async def test_an_empty_database_is_brought_to_the_tables_of_the_code(tmp_path: Path) -> None:
    await migrate(sqlite_url(tmp_path / "a.db"))
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.connect() as connection:
        options = {"version_table": "alembic_version_agents", "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), Base.metadata) == []
    engine.dispose()


async def test_runs_of_before_conversations_are_kept(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "a.db")
    database.executescript(
        """
        create table alembic_version_agents (version_num varchar(32) not null);
        insert into alembic_version_agents values ('a0001');
        create table agent_runs (id varchar(64) primary key, kind varchar(16) not null, tenant varchar(64) not null,
            status varchar(16) not null, request text not null, size integer not null, outcome text,
            created_at datetime not null, finished_at datetime);
        create table agent_run_events (run_id varchar(64) references agent_runs (id) on delete cascade, number integer,
            event text not null, primary key (run_id, number));
        insert into agent_runs values ('run_1', 'run', 'acme', 'completed', '{}', 2, null, '2026-01-01 00:00:00', null);
        """
    )
    database.close()
    await migrate(sqlite_url(tmp_path / "a.db"))
    database = sqlite3.connect(tmp_path / "a.db")
    assert database.execute("select id, conversation from agent_runs").fetchall() == [("run_1", None)]
    database.close()
