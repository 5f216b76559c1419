"""Conversations as they are kept: within their bounds, and gone when they are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import func, select

from readahead_agents.conversations.store import Bounds, ConversationStore
from readahead_agents.errors import ConversationFull, ConversationNotFound, ItemExists
from readahead_agents.runs.journal import RunJournal, RunStatus, new_run
from readahead_agents.store.tables import Base
from readahead_retrieval.store.session import Database

TENANT = "acme"
BOUNDS = Bounds(conversations=3, tenant_chars=600, items=3, conversation_chars=400)


def item(number: int, text: str = "Hello.") -> dict[str, Any]:
    return {"id": f"msg_{number}", "type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[ConversationStore]:
    store = await ConversationStore.open(database_url, BOUNDS)
    yield store
    await store.close()


async def test_the_conversations_not_written_to_for_longest_go_first(store: ConversationStore) -> None:
    first, second, third = [await store.create(TENANT, {"name": name}) for name in "abc"]
    await store.append(TENANT, first.id, [item(1)])
    other = await store.create("globex", {})
    fourth = await store.create(TENANT, {})
    with pytest.raises(ConversationNotFound, match=second.id):
        await store.get(TENANT, second.id)
    for kept, tenant in [(first, TENANT), (third, TENANT), (fourth, TENANT), (other, "globex")]:
        assert (await store.get(tenant, kept.id)).id == kept.id


async def test_a_tenants_conversations_are_bounded_in_size_too(store: ConversationStore) -> None:
    first = await store.create(TENANT, {}, [item(1, "x" * 250)])
    second = await store.create(TENANT, {}, [item(1, "x" * 250)])
    with pytest.raises(ConversationNotFound):
        await store.get(TENANT, first.id)
    assert await store.items(TENANT, second.id)


@pytest.mark.parametrize("items", [[item(2), item(3), item(4)], [item(2, "x" * 400)]])
async def test_a_full_conversation_takes_all_new_items_or_none(
    store: ConversationStore, items: list[dict[str, Any]]
) -> None:
    kept = await store.create(TENANT, {}, [item(1)])
    with pytest.raises(ConversationFull, match=kept.id):
        await store.append(TENANT, kept.id, items)
    assert await store.items(TENANT, kept.id) == [item(1)]
    await store.append(TENANT, kept.id, items, may_overflow=True)
    with pytest.raises(ConversationFull):
        await store.check_room(TENANT, kept.id)


@pytest.mark.parametrize("ids", [[1], [2, 2]])
async def test_an_id_that_is_taken_is_refused_by_name(store: ConversationStore, ids: list[int]) -> None:
    kept = await store.create(TENANT, {}, [item(1)])
    with pytest.raises(ItemExists, match=f"msg_{ids[0]}"):
        await store.append(TENANT, kept.id, [item(number) for number in ids])
    assert await store.items(TENANT, kept.id) == [item(1)]


async def test_an_item_taken_out_makes_room_for_another(store: ConversationStore) -> None:
    kept = await store.create(TENANT, {}, [item(1), item(2), item(3)])
    await store.remove_item(TENANT, kept.id, "msg_2")
    await store.append(TENANT, kept.id, [item(4)])
    assert [each["id"] for each in await store.items(TENANT, kept.id)] == ["msg_1", "msg_3", "msg_4"]
    assert [each["id"] for each in await store.items(TENANT, kept.id, 3)] == ["msg_1", "msg_3"]


async def test_a_deleted_conversation_leaves_no_word_in_any_table(database_url: str, store: ConversationStore) -> None:
    secret = "the combination is 4711"
    kept = await store.create(TENANT, {}, [item(1, secret)])
    journal = await RunJournal.open(database_url)
    turn = new_run(TENANT, "response", {"items": [item(1, secret)]}, kept.id)
    await journal.add(turn)
    await journal.append(turn.id, 1, [{"type": "response.completed", "text": secret}])
    with pytest.raises(ConversationNotFound):
        await store.remove("globex", kept.id)
    assert await rows_of(database_url) == [1, 1, 1, 1]
    await store.remove(TENANT, kept.id)
    assert await rows_of(database_url) == [0, 0, 0, 0]
    await journal.close()


async def test_a_forgotten_conversation_takes_its_turns_along_and_none_goes_while_a_turn_runs(
    database_url: str, store: ConversationStore
) -> None:
    oldest, second = [await store.create(TENANT, {}, [item(1)]) for _ in range(2)]
    journal = await RunJournal.open(database_url)
    running, ended, other = [new_run(TENANT, "response", {}, each) for each in (oldest.id, second.id, None)]
    for run in (running, ended, other):
        await journal.add(run)
        await journal.append(run.id, 1, [{"type": "response.completed"}])
    for run in (ended, other):
        await journal.finish(run, RunStatus.COMPLETED, None, 0)
    for _ in range(3):
        await store.create(TENANT, {})
    with pytest.raises(ConversationNotFound):
        await store.get(TENANT, second.id)
    assert {run.id for run in await journal.list_runs(TENANT, "response")} == {running.id, other.id}
    await journal.finish(running, RunStatus.COMPLETED, None, 0)
    await store.create(TENANT, {})
    with pytest.raises(ConversationNotFound):
        await store.get(TENANT, oldest.id)
    assert [run.id for run in await journal.list_runs(TENANT, "response")] == [other.id]
    await journal.close()


async def rows_of(database_url: str) -> list[int]:
    """Rows of each table that holds what was said."""
    database = Database(database_url)
    async with database.reading() as session:
        tables = [table for name, table in Base.metadata.tables.items() if name != "agent_decisions"]
        counts = [(await session.execute(select(func.count()).select_from(table))).scalar_one() for table in tables]
    await database.close()
    return counts


async def test_turns_that_end_at_the_same_time_are_each_kept_whole(store: ConversationStore) -> None:
    kept = await store.create(TENANT, {})
    pairs = [[item(n), item(n + 100)] for n in range(8)]
    await asyncio.gather(*(store.append(TENANT, kept.id, pair, may_overflow=True) for pair in pairs))
    ids = [each["id"] for each in await store.items(TENANT, kept.id)]
    assert sorted(zip(ids[::2], ids[1::2], strict=True)) == [(f"msg_{n}", f"msg_{n + 100}") for n in range(8)]


async def test_what_was_said_is_there_after_a_restart(database_url: str, store: ConversationStore) -> None:
    kept = await store.create(TENANT, {"topic": "pumps"}, [item(1, "한국어도 됩니다")])
    again = await ConversationStore.open(database_url, BOUNDS)
    assert (await again.get(TENANT, kept.id)).metadata == {"topic": "pumps"}
    assert await again.items(TENANT, kept.id) == [item(1, "한국어도 됩니다")]
    await again.close()
