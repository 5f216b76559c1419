"""Databases of their own for tests: SQLite in a file, PostgreSQL on the server that READAHEAD_TEST_POSTGRES names."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

SERVER = os.environ.get("READAHEAD_TEST_POSTGRES", "")


@contextmanager
def fresh_postgres() -> Iterator[str]:
    """An empty database's URL; skips the test where there is no server."""
    if not SERVER:
        pytest.skip("READAHEAD_TEST_POSTGRES names no server; scripts/with_postgres.sh starts one")
    name = f"test_{secrets.token_hex(8)}"
    asyncio.run(_execute(f"CREATE DATABASE {name}"))
    try:
        yield make_url(SERVER).set(database=name).render_as_string(hide_password=False)
    finally:
        asyncio.run(_execute(f"DROP DATABASE {name} WITH (FORCE)"))


async def _execute(statement: str) -> None:
    engine = create_async_engine(SERVER, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(statement))
    await engine.dispose()
