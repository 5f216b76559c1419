"""Opening the database and bringing the platform's schema up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

_MIGRATIONS = Path(__file__).parent / "migrations"


def database_url(home: Path, configured: str) -> str:
    """The configured URL, or SQLite in `home`."""
    return configured or f"sqlite+aiosqlite:///{home / 'readahead.db'}"


async def open_database(url: str) -> AsyncEngine:
    """Connects, and applies the migrations that are missing."""
    engine = create_async_engine(url)
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _set_sqlite_pragmas)
    async with engine.begin() as connection:
        await connection.run_sync(_migrate)
    return engine


def _set_sqlite_pragmas(connection: Any, _record: Any) -> None:
    """WAL lets readers and the writer work side by side; the time-out waits for retrieval's writes."""
    for pragma in ("journal_mode = WAL", "busy_timeout = 10000", "foreign_keys = ON", "synchronous = NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _migrate(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
