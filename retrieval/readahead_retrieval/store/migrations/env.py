"""Run by Alembic for every command; the URL comes from `store.migrate.alembic_config`."""

from __future__ import annotations

import asyncio

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.sql.schema import SchemaItem

from readahead_retrieval.store.migrate import VERSION_TABLE
from readahead_retrieval.store.models import Base


def _ours(_item: SchemaItem, name: str | None, kind: str, reflected: bool, compared: SchemaItem | None) -> bool:
    """Other packages keep tables in the same database: those are not ours to compare."""
    return kind != "table" or not reflected or name in Base.metadata.tables


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table=VERSION_TABLE,
        include_object=_ours,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def _run_online() -> None:
    engine = create_async_engine(context.config.attributes["url"])
    try:
        async with engine.connect() as connection:
            await connection.run_sync(_run)
    finally:
        await engine.dispose()


asyncio.run(_run_online())
