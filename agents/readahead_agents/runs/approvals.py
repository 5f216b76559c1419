"""Calls of runs that wait for somebody's word, and the words as they come in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from readahead_agents.approval import Decision, PendingCall


class ApprovalDesk:
    """The waiting calls of all runs. Whoever decides has looked the run up for its tenant."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, tuple[PendingCall, asyncio.Future[Decision]]]] = {}

    def of(self, run_id: str) -> RunApprover:
        return RunApprover(self, run_id)

    def waiting(self, run_id: str) -> list[PendingCall]:
        """Oldest first."""
        return [call for call, _ in self._waiting.get(run_id, {}).values()]

    def decide(self, run_id: str, approval_id: str, *, approve: bool) -> bool:
        """Whether such a call waited; the first word counts."""
        found = self._waiting.get(run_id, {}).get(approval_id)
        if found is None or found[1].done():
            return False
        found[1].set_result(Decision.APPROVED if approve else Decision.DENIED)
        return True

    async def wait(self, run_id: str, call: PendingCall, timeout_s: float) -> Decision:
        """The decision; the call waits no longer once this ends, however it ends."""
        word: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(run_id, {})[call.id] = call, word
        try:
            async with asyncio.timeout(timeout_s):
                return await word
        except TimeoutError:
            return Decision.EXPIRED
        finally:
            del self._waiting[run_id][call.id]
            if not self._waiting[run_id]:
                del self._waiting[run_id]


@dataclass(frozen=True, slots=True)
class RunApprover:
    """An `Approver` for one run."""

    desk: ApprovalDesk
    run_id: str

    async def decide(self, call: PendingCall, timeout_s: float) -> Decision:
        return await self.desk.wait(self.run_id, call, timeout_s)
