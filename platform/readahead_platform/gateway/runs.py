"""The agent's runs, kept in the installation's database."""

from __future__ import annotations

from readahead_agents.runs.journal import Event, RunJournal
from readahead_agents.runs.manager import RunManager
from readahead_platform.gateway.errors import envelope, to_api_error
from readahead_platform.settings import Settings
from readahead_platform.store.database import database_url


async def open_runs(settings: Settings) -> RunManager:
    """Runs that the last stop interrupted are told as such."""
    journal = await RunJournal.open(database_url(settings.home, settings.retrieval.database_url))
    return RunManager(journal, _error_event)


def _error_event(error: Exception) -> Event:
    """As a stream's error frame has it."""
    return {"type": "error", **envelope(to_api_error(error))}
