"""Runs that are kept, where they end at a bad moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pytest

from readahead_agents.runs import journal as journals
from readahead_agents.runs.journal import Event, Kind, Run, RunJournal, RunStatus
from readahead_agents.runs.manager import RunManager

TENANT = "acme"


class SlowJournal(RunJournal):
    """Takes its time once the first events are committed."""

    committed: asyncio.Event
    go_on: asyncio.Event
    looked_up: asyncio.Event

    async def append(self, run_id: str, first: int, events: Sequence[Event]) -> int:
        size = await super().append(run_id, first, events)
        self.committed.set()
        await self.go_on.wait()
        return size

    async def get(self, tenant: str, kind: Kind, run_id: str) -> Run:
        run = await super().get(tenant, kind, run_id)
        self.looked_up.set()
        return run


@pytest.fixture
async def journal(database_url: str) -> AsyncIterator[SlowJournal]:
    journal = await SlowJournal.open(database_url)
    journal.committed, journal.go_on, journal.looked_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
    yield journal
    await journal.close()


def manager(journal: RunJournal) -> RunManager:
    return RunManager(journal, lambda error: {"type": "error", "error": {"message": str(error)}})


async def answering(_: Run) -> AsyncGenerator[Event, None]:
    yield {"type": "route"}
    yield {"type": "answer", "answer": "x" * 100}


async def test_a_run_cancelled_while_its_events_are_written_is_kept_as_cancelled(journal: SlowJournal) -> None:
    runs = manager(journal)
    run = await runs.start(TENANT, "run", {}, answering)
    await journal.committed.wait()
    cancelling = asyncio.create_task(runs.cancel(TENANT, "run", run.id))
    await journal.looked_up.wait()
    for _ in range(3):  # until the cancellation has come to the run
        await asyncio.sleep(0)
    journal.go_on.set()
    assert (await cancelling).status is RunStatus.CANCELLED
    told = [(number, event["type"]) async for number, event in runs.follow(TENANT, "run", run.id)]
    assert told == [(1, "route"), (2, "cancelled")]


async def test_the_oldest_runs_go_when_they_take_too_much(
    journal: SlowJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "BYTES_KEPT", 700)
    journal.go_on.set()
    runs = manager(journal)
    for number in range(4):
        run = await runs.start(TENANT, "run", {"number": number}, answering)
        assert [number async for number, _ in runs.follow(TENANT, "run", run.id)] == [1, 2]
    other = await runs.start(TENANT, "response", {}, answering)
    assert len([number async for number, _ in runs.follow(TENANT, "response", other.id)]) == 2
    kept = [run.request["number"] for run in await runs.list_runs(TENANT, "run")]
    assert kept == [2, 3]
