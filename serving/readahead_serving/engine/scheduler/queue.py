"""The sequences that wait, and which of them is next."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping
from itertools import chain

from readahead_serving.engine.sequence import Sequence

STEP_BACK_TOKENS = 4096
"""How far a priority above 0 puts a request behind other tenants' requests, in tokens of service for each level."""
MAX_IDLE_TENANTS = 1024
"""Tenants without requests whose service is remembered."""


class WaitingQueue:
    """Fair between tenants, by rank within a tenant.

    Between tenants it is start-time fair queueing (Goyal, Vin, Chen: Start-time fair queuing, 1996) in tokens computed:
    the tenant that has had the least is next, and one that comes back from idleness starts level with the least served.
    A tenant may step back behind others by a priority above 0; it never gets ahead of them by one below. Preempted
    sequences go before all others, in the order of their ranks, or they would lose their place to newcomers for ever.

    Args:
        tenant_running: Sequences that one tenant may have in the running batch.
    """

    def __init__(self, tenant_running: int) -> None:
        self._tenant_running = tenant_running
        self._preempted: list[Sequence] = []
        self._tenants: dict[str, list[Sequence]] = {}
        self._served: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._preempted) + sum(map(len, self._tenants.values()))

    def __iter__(self) -> Iterator[Sequence]:
        return chain(self._preempted, sorted(chain.from_iterable(self._tenants.values()), key=_rank))

    def __contains__(self, sequence: object) -> bool:
        return isinstance(sequence, Sequence) and (
            sequence in self._tenants.get(sequence.request.salt, ()) or sequence in self._preempted
        )

    def add(self, sequence: Sequence) -> None:
        tenant = sequence.request.salt
        if tenant not in self._tenants:
            self._join(tenant)
        insort(self._tenants[tenant], sequence, key=_rank)

    def add_preempted(self, sequence: Sequence) -> None:
        insort(self._preempted, sequence, key=_rank)

    def remove(self, sequence: Sequence) -> None:
        if sequence in self._preempted:
            self._preempted.remove(sequence)
            return
        tenant = sequence.request.salt
        self._tenants[tenant].remove(sequence)
        if not self._tenants[tenant]:
            del self._tenants[tenant]

    def head(self, running: Mapping[str, int]) -> Sequence | None:
        """The next sequence to run; None if none may.

        Args:
            running: Sequences in the running batch, by tenant.
        """
        if self._preempted:
            return self._preempted[0]
        heads = [waiting[0] for name, waiting in self._tenants.items() if running.get(name, 0) < self._tenant_running]
        return min(heads, key=self._turn, default=None)

    def charge(self, tenant: str, tokens: int) -> None:
        """Counts tokens that were computed for a tenant."""
        self._served[tenant] = self._served.get(tenant, 0) + tokens

    def _turn(self, sequence: Sequence) -> tuple[int, int]:
        served = self._served.get(sequence.request.salt, 0)
        return served + STEP_BACK_TOKENS * max(0, sequence.request.priority), sequence.rank

    def _join(self, tenant: str) -> None:
        least = min((self._served.get(name, 0) for name in self._tenants), default=0)
        self._served[tenant] = max(least, self._served.get(tenant, 0))
        self._tenants[tenant] = []
        if len(self._served) > len(self._tenants) + MAX_IDLE_TENANTS:
            idle = (name for name in self._served if name not in self._tenants)
            del self._served[min(idle, key=self._served.__getitem__)]


def _rank(sequence: Sequence) -> int:
    return sequence.rank
