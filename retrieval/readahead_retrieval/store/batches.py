"""Files added in one go."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import NotFound
from readahead_retrieval.store import attachments
from readahead_retrieval.store.knowledge_bases import counts_by_state
from readahead_retrieval.store.models import BatchFileRow, FileBatchRow, utc_now
from readahead_retrieval.store.names import new_id
from readahead_retrieval.store.session import insert_for
from readahead_retrieval.types import Attachment, FileBatch


async def create(session: AsyncSession, kb_id: str, file_ids: Sequence[str]) -> str:
    """Returns the batch's id."""
    batch_id = new_id("vsfb_")
    session.add(FileBatchRow(id=batch_id, kb_id=kb_id, cancelled=False, created_at=utc_now()))
    await session.flush()
    rows = [{"batch_id": batch_id, "file_id": file_id} for file_id in file_ids]
    await session.execute(insert_for(session)(BatchFileRow).on_conflict_do_nothing(), rows)
    return batch_id


async def get(session: AsyncSession, kb_id: str, batch_id: str) -> FileBatch:
    row = await session.get(FileBatchRow, batch_id)
    if row is None or row.kb_id != kb_id:
        raise NotFound("file batch", batch_id)
    states: dict[str, int] = {}
    for attachment in await files(session, kb_id, batch_id):
        state = attachment.document.state
        states[state] = states.get(state, 0) + 1
    return FileBatch(row.id, row.kb_id, row.created_at, row.cancelled, counts_by_state(states))


async def files(session: AsyncSession, kb_id: str, batch_id: str) -> list[Attachment]:
    """Oldest first."""
    chosen: Select[str] = select(BatchFileRow.file_id).where(BatchFileRow.batch_id == batch_id)
    return await attachments.of_batch(session, kb_id, chosen)


async def set_cancelled(session: AsyncSession, batch_id: str) -> None:
    await session.execute(update(FileBatchRow).where(FileBatchRow.id == batch_id).values(cancelled=True))
