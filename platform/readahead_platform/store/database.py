"""Opening the database and bringing the platform's schema up to date."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from readahead_retrieval.store.session import Database, sqlite_url

_MIGRATIONS = Path(__file__).parent / "migrations"


def database_url(home: Path, configured: str) -> str:
    """The configured URL, or SQLite in `home`."""
    return configured or sqlite_url(home / "readahead.db")


async def open_database(url: str) -> Database:
    """Applies the migrations that are missing, and connects."""
    engine = create_async_engine(url)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_migrate)
    finally:
        await engine.dispose()
    return Database(url)


def _migrate(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
