"""Runs that go on by themselves: whoever started one may leave, come back and read on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from readahead_agents.errors import ConversationNotFound, TooManyRuns
from readahead_agents.runs.approvals import ApprovalDesk
from readahead_agents.runs.journal import Event, Kind, Run, RunJournal, RunStatus, new_run

MAX_RUNNING = 64
MAX_RUNNING_OF_TENANT = 8
EVENTS_PER_WRITE = 64
_log = logging.getLogger(__name__)

EventsOf = Callable[[Run], AsyncGenerator[Event, None]]
ENDINGS = {
    "answer": RunStatus.COMPLETED,
    "response.completed": RunStatus.COMPLETED,
    "response.incomplete": RunStatus.COMPLETED,
    "response.failed": RunStatus.FAILED,
}
_FREQUENT = {"token", "response.output_text.delta", "response.function_call_arguments.delta"}
DescribeError = Callable[[Exception], Event]
"""An event of type `error` that tells people what went wrong."""


class RunManager:
    """Starts runs, keeps what they tell, and lets any number of readers follow.

    Events are numbered from 1. Those of a running run are in memory until they are written, which happens with every
    event but tokens, and with every `EVENTS_PER_WRITE` tokens.
    """

    def __init__(self, journal: RunJournal, describe_error: DescribeError) -> None:
        self.approvals = ApprovalDesk()
        self._journal = journal
        self._describe_error = describe_error
        self._live: dict[str, _LiveRun] = {}
        self._closing: list[str] = []
        """Conversations that take no turns, once for each that wants it so."""

    async def close(self) -> None:
        """Ends what still runs; it counts as interrupted."""
        tasks = [live.task for live in self._live.values() if live.task is not None]
        for live in self._live.values():
            live.end(RunStatus.INTERRUPTED)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._journal.close()

    async def start(
        self,
        tenant: str,
        kind: Kind,
        request: Mapping[str, Any],
        events: EventsOf,
        *,
        conversation: str | None = None,
        decisions: Mapping[str, bool] | None = None,
    ) -> Run:
        """Begins a run, which goes on when the caller leaves.

        Args:
            request: What was asked, as it is shown later.
            conversation: What it is a turn of, where it is one.
            decisions: Words on calls of earlier runs, which are kept together with the run.
            events: Makes what happens, of the run itself. An event of one of the types `ENDINGS` is the outcome.
                Closed when the run ends.

        Raises:
            TooManyRuns: The tenant, or everybody, has as many runs going as are allowed.
            AlreadyDecided: One of the calls had its word before.
            ConversationNotFound: The conversation is gone, or going.
        """
        if conversation is not None and conversation in self._closing:
            raise ConversationNotFound(conversation)
        running = sum(live.run.tenant == tenant for live in self._live.values())
        if running >= MAX_RUNNING_OF_TENANT or len(self._live) >= MAX_RUNNING:
            raise TooManyRuns(running)
        run = new_run(tenant, kind, request, conversation)
        live = self._live[run.id] = _LiveRun(run)  # its place is taken before anything is waited for
        try:
            await self._journal.add(run, decisions)
            live.task = asyncio.create_task(self._run(live, events(run)))
        except BaseException:
            del self._live[run.id]
            raise
        finally:
            live.begun.set()
        return run

    async def withdraw(self, tenant: str, request_ids: Collection[str]) -> None:
        """Lets calls be decided again that were approved and never begun."""
        await self._journal.withdraw(tenant, request_ids)

    async def get(self, tenant: str, kind: Kind, run_id: str) -> Run:
        return await self._journal.get(tenant, kind, run_id)

    async def list_runs(self, tenant: str, kind: Kind) -> list[Run]:
        """Oldest first."""
        return await self._journal.list_runs(tenant, kind)

    async def cancel(self, tenant: str, kind: Kind, run_id: str) -> Run:
        """Ends a run and waits until it has ended; one that has ended stays as it is."""
        await self._journal.get(tenant, kind, run_id)
        live = self._live.get(run_id)
        if live is not None and live.task is not None:
            live.end(RunStatus.CANCELLED)
            await asyncio.wait([live.task])
        return await self._journal.get(tenant, kind, run_id)

    @asynccontextmanager
    async def without_turns(self, conversation: str) -> AsyncIterator[None]:
        """Ends what runs as a turn of a conversation, whose tenant was looked up; none begins within."""
        self._closing.append(conversation)
        try:
            for live in [live for live in self._live.values() if live.run.conversation == conversation]:
                await live.begun.wait()
                live.end(RunStatus.CANCELLED)
                if live.task is not None:
                    await asyncio.wait([live.task])
            yield
        finally:
            self._closing.remove(conversation)

    async def remove(self, tenant: str, kind: Kind, run_id: str) -> None:
        """Ends it first, where it runs."""
        await self._journal.remove(await self.cancel(tenant, kind, run_id))

    async def follow(
        self, tenant: str, kind: Kind, run_id: str, after: int = 0
    ) -> AsyncGenerator[tuple[int, Event], None]:
        """Numbers and events behind `after`: those there are, then those to come until the run ends."""
        await self._journal.get(tenant, kind, run_id)
        live = self._live.get(run_id)
        for number, event in await self._journal.events(run_id, after):
            after = number
            yield number, event
        while live is not None:
            for number, event in live.behind(after):
                after = number
                yield number, event
            if live.has_ended and not live.behind(after):
                return
            await live.changed()

    async def _run(self, live: _LiveRun, events: AsyncGenerator[Event, None]) -> None:
        status, outcome = RunStatus.FAILED, None
        try:
            async with aclosing(events):
                async for event in events:
                    live.add(event)
                    if event["type"] in ENDINGS:
                        status, outcome = ENDINGS[event["type"]], event
                    await self._write(live, at_least=EVENTS_PER_WRITE if event["type"] in _FREQUENT else 1)
        except asyncio.CancelledError:
            status, outcome = live.ending, None
            live.add({"type": status.value})
        except Exception as error:  # noqa: BLE001 - the top of a run: whatever ends it is its outcome
            outcome = self._describe_error(error)
            live.add(outcome)
        live.is_finishing = True
        await self._finish(live, status, outcome)

    async def _finish(self, live: _LiveRun, status: RunStatus, outcome: Event | None) -> None:
        try:
            await live.settled()
            await self._write(live, at_least=1)
            await self._journal.finish(live.run, status, outcome, live.size)
        except SQLAlchemyError:
            # A full disk, perhaps: readers are told all the same, and the next start of the service finds the run as
            # interrupted.
            _log.exception("run %s could not be kept", live.run.id)
        finally:
            del self._live[live.run.id]
            live.close()

    async def _write(self, live: _LiveRun, *, at_least: int) -> None:
        """A run that is cancelled meanwhile writes to the end: whether a broken-off transaction was committed, nobody
        could tell."""
        events = live.unwritten()
        if len(events) >= at_least:
            live.writing = asyncio.create_task(self._append(live, events))
            await asyncio.shield(live.writing)

    async def _append(self, live: _LiveRun, events: list[Event]) -> None:
        live.size += await self._journal.append(live.run.id, live.written + 1, events)
        live.written += len(events)


class _LiveRun:
    """A run in progress: all its events, and who waits for the next."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.task: asyncio.Task[None] | None = None
        self.begun = asyncio.Event()
        """It has its task, or came to nothing."""
        self.written = 0
        self.size = 0
        """Bytes of what is written."""
        self.writing: asyncio.Task[None] | None = None
        self.ending = RunStatus.INTERRUPTED
        self.is_finishing = False
        self.has_ended = False
        self._events: list[Event] = []
        self._changed = asyncio.Event()

    def add(self, event: Event) -> None:
        self._events.append(event)
        self._wake()

    async def settled(self) -> None:
        """Waits for what is being written; how it ended is told to whoever wrote it, or by what is still unwritten."""
        if self.writing is not None:
            await asyncio.wait([self.writing])

    def unwritten(self) -> list[Event]:
        return self._events[self.written :]

    def behind(self, after: int) -> list[tuple[int, Event]]:
        return list(enumerate(self._events[after:], after + 1))

    def end(self, status: RunStatus) -> None:
        if self.task is not None and not self.is_finishing:
            self.ending = status
            self.task.cancel()

    def close(self) -> None:
        self.has_ended = True
        self._wake()

    async def changed(self) -> None:
        await self._changed.wait()

    def _wake(self) -> None:
        """Those who wait for this event see it; who comes later waits for the next."""
        self._changed.set()
        self._changed = asyncio.Event()
