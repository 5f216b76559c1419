"""Brings the database to this version's tables, with a history of this package's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config

VERSION_TABLE = "alembic_version_retrieval"


def alembic_config(url: str) -> Config:
    """The configuration that env.py reads; no alembic.ini is needed."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["url"] = url
    return config


def migrate(url: str, seal: Callable[[str], bytes] | None = None) -> None:
    """Upgrades to the newest revision. Blocks, and runs an event loop of its own: call it in a thread.

    Args:
        seal: Closes the passwords that an older version kept open; without it they are dropped.
    """
    config = alembic_config(url)
    config.attributes["seal"] = seal
    command.upgrade(config, "head")
