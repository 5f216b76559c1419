"""Words on calls that waited for them between two runs: each call is decided once, whoever asks at the same time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_agents.errors import AlreadyDecided
from readahead_agents.store.tables import DecisionRow
from readahead_retrieval.store.session import insert_for

DECISIONS_KEPT = 100_000
"""Of one tenant: more than the requests that its kept responses hold. The oldest go."""


async def decide(session: AsyncSession, tenant: str, words: Mapping[str, bool]) -> None:
    """Keeps all of the words, or none: what ends the transaction otherwise takes them back.

    A denial that is told again changes nothing, as clients that keep the items send it each time.

    Args:
        words: Whether the client approves, for each request's id.

    Raises:
        AlreadyDecided: A call was approved before, or is to be approved after it was denied.
    """
    now = datetime.now(UTC)
    for request_id, approve in sorted(words.items()):  # in one order, so that two transactions wait for no circle
        row = {"tenant": tenant, "request_id": request_id, "approve": approve, "decided_at": now}
        added = insert_for(session)(DecisionRow).values(row).on_conflict_do_nothing().returning(DecisionRow.request_id)
        if await session.scalar(added) is None and (approve or await _approved(session, tenant, request_id)):
            raise AlreadyDecided(request_id)
    if words:
        await _forget_oldest(session, tenant)


async def withdraw(session: AsyncSession, tenant: str, request_ids: Collection[str]) -> None:
    """Of calls that were never begun: they may be decided again."""
    of_tenant = DecisionRow.tenant == tenant
    await session.execute(delete(DecisionRow).where(of_tenant, DecisionRow.request_id.in_(request_ids)))


async def _approved(session: AsyncSession, tenant: str, request_id: str) -> bool:
    chosen = select(DecisionRow.approve).where(DecisionRow.tenant == tenant, DecisionRow.request_id == request_id)
    return bool(await session.scalar(chosen))


async def _forget_oldest(session: AsyncSession, tenant: str) -> None:
    decided, of_tenant = DecisionRow.decided_at, DecisionRow.tenant == tenant
    oldest = select(decided).where(of_tenant).order_by(decided.desc()).offset(DECISIONS_KEPT - 1).limit(1)
    await session.execute(delete(DecisionRow).where(of_tenant, decided < oldest.scalar_subquery()))
