"""Runs as they are kept: one row a run, one row an event."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal, Self

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_agents.errors import ConversationNotFound, RunNotFound
from readahead_agents.runs.decisions import decide, withdraw
from readahead_agents.store.migrate import migrate
from readahead_agents.store.tables import ConversationRow, RunEventRow, RunRow
from readahead_retrieval.store.session import Database

Event = Mapping[str, Any]
Kind = Literal["run", "response"]
_ID_PREFIX: Mapping[Kind, str] = {"run": "run_", "response": "resp_"}
RUNS_KEPT = 1000
"""Finished runs of one tenant and kind; the oldest go when there are more."""
BYTES_KEPT = 256 << 20
"""And when they take more than this; the last one stays."""


class RunStatus(StrEnum):
    """All but the first are final."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """The service stopped meanwhile; what it had told is kept."""


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked, and how it ended."""

    id: str
    kind: Kind
    tenant: str
    status: RunStatus
    request: Mapping[str, Any]
    outcome: Mapping[str, Any] | None
    created_at: datetime
    finished_at: datetime | None
    conversation: str | None = None
    """The conversation that it is a turn of."""


class RunJournal:
    """Every method takes the tenant and finds nothing of another. Raises `RunNotFound`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, url: str) -> Self:
        """Brings the tables up to date; runs that a stopped service left are interrupted."""
        await migrate(url)
        journal = cls(Database(url))
        async with journal._database.writing() as session:
            running = RunRow.status == RunStatus.RUNNING.value
            ended = {"status": RunStatus.INTERRUPTED.value, "finished_at": _now()}
            await session.execute(update(RunRow).where(running).values(ended))
        return journal

    async def close(self) -> None:
        await self._database.close()

    async def add(self, run: Run, decisions: Mapping[str, bool] | None = None) -> None:
        """Keeps a run that begins, with the words on earlier calls that it brings.

        Raises:
            AlreadyDecided: One of these calls has its word; the run is not kept then.
            ConversationNotFound: What it is a turn of is gone.
        """
        row = RunRow(
            id=run.id,
            kind=run.kind,
            tenant=run.tenant,
            conversation=run.conversation,
            status=run.status.value,
            request=_dump(run.request),
            size=0,
            outcome=None,
            created_at=run.created_at,
            finished_at=None,
        )
        async with self._database.writing() as session:
            if run.conversation is not None:
                await _hold_conversation(session, run.tenant, run.conversation)
            await decide(session, run.tenant, decisions or {})
            session.add(row)

    async def withdraw(self, tenant: str, request_ids: Collection[str]) -> None:
        """Lets calls be decided again that were approved and never begun."""
        async with self._database.writing() as session:
            await withdraw(session, tenant, request_ids)

    async def append(self, run_id: str, first: int, events: Sequence[Event]) -> int:
        """Args:
            first: The number of the first of these events.

        Returns:
            The bytes that they take.
        """
        rows = [{"run_id": run_id, "number": n, "event": _dump(event)} for n, event in enumerate(events, first)]
        if rows:
            async with self._database.writing() as session:
                await session.execute(insert(RunEventRow), rows)
        return sum(len(str(row["event"])) for row in rows)

    async def finish(self, run: Run, status: RunStatus, outcome: Mapping[str, Any] | None, events_size: int) -> None:
        """Args:
        events_size: Bytes that its events take.
        """
        ending = None if outcome is None else _dump(outcome)
        size = events_size + len(_dump(run.request)) + len(ending or "")
        ended = {"status": status.value, "outcome": ending, "size": size, "finished_at": _now()}
        async with self._database.writing() as session:
            await session.execute(update(RunRow).where(RunRow.id == run.id).values(ended))
            await _forget_oldest(session, run)

    async def get(self, tenant: str, kind: Kind, run_id: str) -> Run:
        chosen = select(RunRow).where(RunRow.id == run_id, RunRow.tenant == tenant, RunRow.kind == kind)
        async with self._database.reading() as session:
            row = await session.scalar(chosen)
        if row is None:
            raise RunNotFound(run_id, kind)
        return _run(row)

    async def remove(self, run: Run) -> None:
        """With its events."""
        async with self._database.writing() as session:
            await session.execute(delete(RunRow).where(RunRow.id == run.id))

    async def list_runs(self, tenant: str, kind: Kind) -> list[Run]:
        """Oldest first."""
        chosen = (
            select(RunRow).where(RunRow.tenant == tenant, RunRow.kind == kind).order_by(RunRow.created_at, RunRow.id)
        )
        async with self._database.reading() as session:
            return [_run(row) for row in await session.scalars(chosen)]

    async def events(self, run_id: str, after: int) -> list[tuple[int, Event]]:
        """Numbers and events behind `after`, in order. Whoever asks has looked the run up for its tenant."""
        chosen = select(RunEventRow).where(RunEventRow.run_id == run_id, RunEventRow.number > after)
        async with self._database.reading() as session:
            rows = await session.scalars(chosen.order_by(RunEventRow.number))
            return [(row.number, json.loads(row.event)) for row in rows]


async def _hold_conversation(session: AsyncSession, tenant: str, conversation: str) -> None:
    """Until the transaction ends nobody deletes it, so that whoever does afterwards finds the run."""
    chosen = select(ConversationRow.id).where(ConversationRow.id == conversation, ConversationRow.tenant == tenant)
    if await session.scalar(chosen.with_for_update()) is None:
        raise ConversationNotFound(conversation)


async def _forget_oldest(session: AsyncSession, run: Run) -> None:
    """Keeps the newest of the run's tenant and kind, as many as `RUNS_KEPT` and `BYTES_KEPT` allow."""
    ended = (RunRow.tenant == run.tenant) & (RunRow.kind == run.kind) & (RunRow.status != RunStatus.RUNNING.value)
    newest_first = select(RunRow.id, RunRow.size).where(ended).order_by(RunRow.created_at.desc(), RunRow.id.desc())
    rows = (await session.execute(newest_first)).all()
    taken = itertools.accumulate(row.size for row in rows)
    over = [
        row.id for n, (row, size) in enumerate(zip(rows, taken, strict=True)) if n >= RUNS_KEPT or size > BYTES_KEPT
    ]
    gone = [run_id for run_id in over if run_id != rows[0].id]
    if gone:
        await session.execute(delete(RunRow).where(RunRow.id.in_(gone)))


def new_run(tenant: str, kind: Kind, request: Mapping[str, Any], conversation: str | None = None) -> Run:
    """A run that begins now."""
    run_id = f"{_ID_PREFIX[kind]}{secrets.token_hex(12)}"
    return Run(run_id, kind, tenant, RunStatus.RUNNING, request, None, _now(), None, conversation)


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _now() -> datetime:
    return datetime.now(UTC)


def _run(row: RunRow) -> Run:
    return Run(
        id=row.id,
        kind="response" if row.kind == "response" else "run",
        tenant=row.tenant,
        status=RunStatus(row.status),
        request=json.loads(row.request),
        outcome=None if row.outcome is None else json.loads(row.outcome),
        created_at=row.created_at.replace(tzinfo=UTC),
        finished_at=None if row.finished_at is None else row.finished_at.replace(tzinfo=UTC),
        conversation=row.conversation,
    )
