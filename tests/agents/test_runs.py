"""Runs that are kept, where they end at a bad moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

import pytest

from readahead_agents.conversations.store import ConversationStore
from readahead_agents.errors import AlreadyDecided, ConversationNotFound, RunNotFound
from readahead_agents.runs import decisions
from readahead_agents.runs import journal as journals
from readahead_agents.runs.journal import Event, Kind, Run, RunJournal, RunStatus, new_run
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


async def test_a_call_is_decided_once_though_all_decide_at_the_same_time(journal: SlowJournal) -> None:
    runs = [new_run(TENANT, "response", {}) for _ in range(6)]
    words = [{"mcpr_1": True, f"mcpr_{number}": True} for number in range(2, 8)]
    told = await asyncio.gather(*map(journal.add, runs, words), return_exceptions=True)
    assert sorted(type(each).__name__ for each in told) == ["AlreadyDecided"] * 5 + ["NoneType"]
    assert len(await journal.list_runs(TENANT, "response")) == 1, "a run that was refused is kept"
    lost = next(word for word, each in zip(words, told, strict=True) if each is not None)
    await journal.add(new_run(TENANT, "response", {}), {name: True for name in lost if name != "mcpr_1"})
    await journal.add(new_run("globex", "response", {}), {"mcpr_1": True})


async def test_a_denial_may_be_told_again_and_stays_one(journal: SlowJournal) -> None:
    for _ in range(2):
        await journal.add(new_run(TENANT, "response", {}), {"mcpr_1": False})
    with pytest.raises(AlreadyDecided, match="mcpr_1"):
        await journal.add(new_run(TENANT, "response", {}), {"mcpr_1": True})
    await journal.add(new_run(TENANT, "response", {}), {"mcpr_2": True})
    with pytest.raises(AlreadyDecided, match="mcpr_2"):
        await journal.add(new_run(TENANT, "response", {}), {"mcpr_2": False})
    await journal.withdraw(TENANT, {"mcpr_2"})
    await journal.add(new_run(TENANT, "response", {}), {"mcpr_2": True})


async def test_the_oldest_decisions_go_when_there_are_too_many(
    journal: SlowJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "DECISIONS_KEPT", 2)
    for number in range(3):
        await journal.add(new_run(TENANT, "response", {}), {f"mcpr_{number}": True})
    with pytest.raises(AlreadyDecided):
        await journal.add(new_run(TENANT, "response", {}), {"mcpr_1": True})
    await journal.add(new_run(TENANT, "response", {}), {"mcpr_0": True})


class HeldJournal(RunJournal):
    """Takes its time once a run is kept."""

    kept: asyncio.Event
    go_on: asyncio.Event

    async def add(self, run: Run, decisions: Mapping[str, bool] | None = None) -> None:
        await super().add(run, decisions)
        self.kept.set()
        await self.go_on.wait()


async def test_a_turn_that_begins_while_its_conversation_is_deleted_goes_with_it(database_url: str) -> None:
    conversations = await ConversationStore.open(database_url)
    journal = await HeldJournal.open(database_url)
    journal.kept, journal.go_on = asyncio.Event(), asyncio.Event()
    runs, kept = manager(journal), await conversations.create(TENANT, {})

    async def delete() -> None:
        async with runs.without_turns(kept.id):
            with pytest.raises(ConversationNotFound):
                await runs.start(TENANT, "response", {}, answering, conversation=kept.id)
            await conversations.remove(TENANT, kept.id)

    starting = asyncio.create_task(runs.start(TENANT, "response", {}, answering, conversation=kept.id))
    await journal.kept.wait()
    deleting = asyncio.create_task(delete())
    for _ in range(3):  # until it waits for the turn
        await asyncio.sleep(0)
    journal.go_on.set()
    run = await starting
    await deleting
    with pytest.raises(RunNotFound):
        await runs.get(TENANT, "response", run.id)
    with pytest.raises(ConversationNotFound):
        await runs.start(TENANT, "response", {}, answering, conversation=kept.id)
    assert await runs.list_runs(TENANT, "response") == []
    await runs.close()
    await conversations.close()
