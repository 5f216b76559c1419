"""Conversations as they are kept: one row a conversation, one row an item."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_agents.errors import ConversationFull, ConversationNotFound, ItemExists
from readahead_agents.runs.journal import RunStatus
from readahead_agents.store.migrate import migrate
from readahead_agents.store.tables import ConversationItemRow, ConversationRow, RunRow
from readahead_retrieval.store.session import Database

Item = Mapping[str, Any]
"""A message, a call or its result, as JSON with its `id`."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is kept. Conversations that were not written to for the longest time go when a tenant has more."""

    conversations: int = 1000
    """Of one tenant."""
    tenant_chars: int = 256 << 20
    """Of JSON in all conversations of one tenant; the newest stays."""
    items: int = 1000
    """Of one conversation."""
    conversation_chars: int = 4 << 20
    """Of JSON in one conversation."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is known of one without its items."""

    id: str
    metadata: Mapping[str, str]
    created_at: datetime
    last_number: int
    """The number of its newest item; 0 without any."""


class ConversationStore:
    """Every method takes the tenant and finds nothing of another. Raises `ConversationNotFound`.

    Items have ids that are theirs alone within a conversation.
    """

    def __init__(self, database: Database, bounds: Bounds = Bounds()) -> None:
        self._database = database
        self._bounds = bounds

    @classmethod
    async def open(cls, url: str, bounds: Bounds = Bounds()) -> Self:
        """Brings the tables up to date."""
        await migrate(url)
        return cls(Database(url), bounds)

    async def close(self) -> None:
        await self._database.close()

    async def create(self, tenant: str, metadata: Mapping[str, str], items: Sequence[Item] = ()) -> Conversation:
        """Raises `ConversationFull`, where the items alone are too many, and `ItemExists` for two of one id."""
        now = datetime.now(UTC)
        conversation_id = f"conv_{secrets.token_hex(16)}"
        row = ConversationRow(
            id=conversation_id,
            tenant=tenant,
            labels=json.dumps(metadata, ensure_ascii=False),
            size=0,
            last_number=0,
            created_at=now,
            changed_at=now,
        )
        async with self._database.writing() as session:
            session.add(row)
            await session.flush()
            await self._add(session, row, items, may_overflow=False)
            await self._forget_oldest(session, row)
        return _conversation(row)

    async def get(self, tenant: str, conversation_id: str) -> Conversation:
        async with self._database.reading() as session:
            return _conversation(await _row(session, tenant, conversation_id))

    async def change(self, tenant: str, conversation_id: str, metadata: Mapping[str, str]) -> Conversation:
        """Takes this metadata in the place of what there was."""
        async with self._database.writing() as session:
            row = await _row(session, tenant, conversation_id, lock=True)
            row.labels = json.dumps(metadata, ensure_ascii=False)
            return _conversation(row)

    async def remove(self, tenant: str, conversation_id: str) -> None:
        """With its items, and with the runs that were turns of it: they hold what was said."""
        async with self._database.writing() as session:
            row = await _row(session, tenant, conversation_id, lock=True)
            await _remove(session, [row.id])

    async def append(
        self, tenant: str, conversation_id: str, items: Sequence[Item], *, may_overflow: bool = False
    ) -> None:
        """Adds all of the items at the end, or none.

        Args:
            may_overflow: For a turn that was answered already: it is kept even where the conversation is full then.

        Raises:
            ConversationFull: They are too many for it.
            ItemExists: One has the id of another.
        """
        async with self._database.writing() as session:
            row = await _row(session, tenant, conversation_id, lock=True)
            await self._add(session, row, items, may_overflow=may_overflow)
            await self._forget_oldest(session, row)

    async def check_room(self, tenant: str, conversation_id: str, item_ids: Sequence[str] = ()) -> Conversation:
        """Raises `ConversationFull` where nothing more goes in, and `ItemExists` where one of the ids is taken."""
        async with self._database.reading() as session:
            row = await _row(session, tenant, conversation_id)
            self._check_room(row, await _count(session, row) + 1, row.size)
            await _check_new(session, row, item_ids)
            return _conversation(row)

    async def items(self, tenant: str, conversation_id: str, upto: int | None = None) -> list[Item]:
        """Oldest first; those up to number `upto`, where it is given."""
        async with self._database.reading() as session:
            row = await _row(session, tenant, conversation_id)
            chosen = select(ConversationItemRow.item).where(ConversationItemRow.conversation_id == row.id)
            if upto is not None:
                chosen = chosen.where(ConversationItemRow.number <= upto)
            texts = list(await session.scalars(chosen.order_by(ConversationItemRow.number)))
        return await asyncio.to_thread(lambda: [json.loads(text) for text in texts])  # megabytes, perhaps

    async def page(
        self, tenant: str, conversation_id: str, *, after: str | None, limit: int, ascending: bool
    ) -> tuple[list[Item], bool]:
        """At most `limit` items behind the item `after` in the order asked for, and whether there are more."""
        number = ConversationItemRow.number
        async with self._database.reading() as session:
            row = await _row(session, tenant, conversation_id)
            chosen = select(ConversationItemRow).where(ConversationItemRow.conversation_id == row.id)
            if after is not None:
                start = (await _item_row(session, row, after)).number
                chosen = chosen.where(number > start if ascending else number < start)
            ordered = chosen.order_by(number if ascending else number.desc()).limit(limit + 1)
            rows = list(await session.scalars(ordered))
        return [json.loads(each.item) for each in rows[:limit]], len(rows) > limit

    async def get_item(self, tenant: str, conversation_id: str, item_id: str) -> Item:
        async with self._database.reading() as session:
            found = await _item_row(session, await _row(session, tenant, conversation_id), item_id)
            item: Item = json.loads(found.item)
            return item

    async def remove_item(self, tenant: str, conversation_id: str, item_id: str) -> Conversation:
        async with self._database.writing() as session:
            row = await _row(session, tenant, conversation_id, lock=True)
            found = await _item_row(session, row, item_id)
            row.size -= len(found.item)
            await session.delete(found)
            return _conversation(row)

    async def _add(
        self, session: AsyncSession, row: ConversationRow, items: Sequence[Item], *, may_overflow: bool
    ) -> None:
        texts = [json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items]
        if not texts:
            return
        size = row.size + sum(map(len, texts))
        if not may_overflow:
            self._check_room(row, await _count(session, row) + len(texts), size)
        await _check_new(session, row, [item["id"] for item in items])
        rows = [
            {"conversation_id": row.id, "number": number, "id": item["id"], "item": text}
            for number, (item, text) in enumerate(zip(items, texts, strict=True), row.last_number + 1)
        ]
        await session.execute(insert(ConversationItemRow), rows)
        row.size, row.last_number, row.changed_at = size, row.last_number + len(texts), datetime.now(UTC)
        await session.flush()

    def _check_room(self, row: ConversationRow, count: int, size: int) -> None:
        bounds = self._bounds
        if count > bounds.items or size > bounds.conversation_chars:
            raise ConversationFull(
                f"The conversation {row.id!r} would hold {count} items and {size} characters; {bounds.items} and "
                f"{bounds.conversation_chars} are allowed. Begin a new one, or delete items."
            )

    async def _forget_oldest(self, session: AsyncSession, row: ConversationRow) -> None:
        """Deletes the tenant's conversations over the bounds, those first that were not written to for longest, with
        the runs that were turns of them. One of which a turn is running stays until the next time."""
        of_tenant = select(ConversationRow.id, ConversationRow.size).where(ConversationRow.tenant == row.tenant)
        newest_first = of_tenant.order_by(ConversationRow.changed_at.desc(), ConversationRow.id.desc())
        rows = (await session.execute(newest_first)).all()
        taken = itertools.accumulate(each.size for each in rows)
        over = [
            each.id
            for place, (each, size) in enumerate(zip(rows, taken, strict=True))
            if place >= self._bounds.conversations or size > self._bounds.tenant_chars
        ]
        running = RunRow.conversation.in_(over) & (RunRow.status == RunStatus.RUNNING.value)
        stay = {row.id, *await session.scalars(select(RunRow.conversation).where(running))}
        gone = [conversation_id for conversation_id in over if conversation_id not in stay]
        if gone:
            await _remove(session, gone)


async def _remove(session: AsyncSession, conversation_ids: Sequence[str]) -> None:
    await session.execute(delete(RunRow).where(RunRow.conversation.in_(conversation_ids)))
    await session.execute(delete(ConversationRow).where(ConversationRow.id.in_(conversation_ids)))


async def _row(session: AsyncSession, tenant: str, conversation_id: str, *, lock: bool = False) -> ConversationRow:
    chosen = select(ConversationRow).where(ConversationRow.id == conversation_id, ConversationRow.tenant == tenant)
    row = await session.scalar(chosen.with_for_update() if lock else chosen)
    if row is None:
        raise ConversationNotFound(conversation_id)
    return row


async def _item_row(session: AsyncSession, row: ConversationRow, item_id: str) -> ConversationItemRow:
    of_conversation = ConversationItemRow.conversation_id == row.id
    found = await session.scalar(select(ConversationItemRow).where(of_conversation, ConversationItemRow.id == item_id))
    if found is None:
        raise ConversationNotFound(row.id, item_id)
    return found


async def _check_new(session: AsyncSession, row: ConversationRow, item_ids: Sequence[str]) -> None:
    """Holds for as long as the conversation is locked."""
    of_conversation = ConversationItemRow.conversation_id == row.id
    chosen = select(ConversationItemRow.id).where(of_conversation, ConversationItemRow.id.in_(item_ids))
    taken = set(await session.scalars(chosen))
    for item_id in item_ids:
        if item_id in taken:
            raise ItemExists(row.id, item_id)
        taken.add(item_id)


async def _count(session: AsyncSession, row: ConversationRow) -> int:
    chosen = select(func.count()).where(ConversationItemRow.conversation_id == row.id)
    return int((await session.execute(chosen)).scalar_one())


def _conversation(row: ConversationRow) -> Conversation:
    return Conversation(row.id, json.loads(row.labels), row.created_at.replace(tzinfo=UTC), row.last_number)
