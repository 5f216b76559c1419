"""Which packs stay in memory. Pure decisions over bytes: no tensor, no clock and no file is touched here.

A cache of the W-TinyLFU kind (Einziger, Friedman & Manes 2017, https://arxiv.org/abs/1512.00727): a new pack enters
a small window; what falls out of the window takes a place among the kept ones only if it was asked for more often
than the one it would displace. A batch job that reads every pack once, or all of them in a circle, passes through the
window and leaves the rest as it was, where plain LRU would keep nothing that is asked for again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

WINDOW_SHARE = 0.25
"""Share of the memory cap where new packs stand until they have shown their worth."""
ADMISSION_MARGIN = 2
"""Hits by which a newcomer must outdo the kept pack it displaces: one may come of the order of a circle alone."""
AGING_HITS = 10
"""Counts are halved after this many hits for each pack known, so that yesterday's favourite can be displaced."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What becomes of a pack that wants into memory."""

    admitted: bool
    evicted: tuple[str, ...] = ()
    """Packs to take out of memory for it, in order."""


@dataclass(frozen=True, slots=True)
class PinDecision:
    """Whether a pin is granted, and the numbers that say why."""

    granted: bool
    bytes_needed: int
    bytes_available: int
    """What the tenant's share of the cap still leaves for pins."""


@dataclass(slots=True)
class _Entry:
    nbytes: int
    tenant: str
    pinned: bool


class PackPolicy:
    """Residents and their order. Calls tell it what happens; it answers what to do.

    Args:
        cap_bytes: Memory for all packs together.
        pin_share: Share of the cap that one tenant's pins may take.
    """

    def __init__(self, cap_bytes: int, pin_share: float) -> None:
        self._cap = cap_bytes
        self._pin_bytes = int(cap_bytes * pin_share)
        self._entries: dict[str, _Entry] = {}
        self._window: OrderedDict[str, None] = OrderedDict()
        self._main: OrderedDict[str, None] = OrderedDict()
        self._hits: dict[str, int] = {}
        self._since_aging = 0

    @property
    def used_bytes(self) -> int:
        return sum(entry.nbytes for entry in self._entries.values())

    @property
    def residents(self) -> frozenset[str]:
        return frozenset(self._entries)

    def is_pinned(self, pack: str) -> bool:
        return pack in self._entries and self._entries[pack].pinned

    def pinned_bytes(self, tenant: str | None = None) -> int:
        """Bytes of a tenant's pinned residents, or of everybody's."""
        return sum(e.nbytes for e in self._entries.values() if e.pinned and tenant in (None, e.tenant))

    def hit(self, pack: str) -> None:
        """Counts a request for a pack, resident or not, and refreshes its place."""
        self._hits[pack] = self._hits.get(pack, 0) + 1
        for segment in (self._window, self._main):
            if pack in segment:
                segment.move_to_end(pack)
        self._since_aging += 1
        if self._since_aging > AGING_HITS * len(self._hits):
            self._age()

    def admit(self, pack: str, nbytes: int, tenant: str) -> Admission:
        """Makes a pack resident, unpinned, and says what goes for it. One over what pins leave is not admitted."""
        assert pack not in self._entries, pack
        if nbytes > self._cap - self.pinned_bytes():
            return Admission(admitted=False)
        evicted = []
        while self.used_bytes + nbytes > self._cap:
            evicted.append(victim := self._victim())
            self.remove(victim)
        self._entries[pack] = _Entry(nbytes, tenant, pinned=False)
        self._window[pack] = None
        self._settle()
        return Admission(admitted=True, evicted=tuple(evicted))

    def pin(self, pack: str) -> PinDecision:
        """Keeps a resident pack from eviction, if its tenant's share allows it."""
        entry = self._entries[pack]
        available = self._pin_bytes - self.pinned_bytes(entry.tenant)
        if entry.pinned:
            return PinDecision(granted=True, bytes_needed=0, bytes_available=available)
        decision = PinDecision(entry.nbytes <= available, entry.nbytes, available)
        if decision.granted:
            entry.pinned = True
            self._window.pop(pack, None)
            self._main.pop(pack, None)
        return decision

    def unpin(self, pack: str) -> None:
        """Lets a pack be evicted again; it stands as if just used."""
        entry = self._entries.get(pack)
        if entry is not None and entry.pinned:
            entry.pinned = False
            self._main[pack] = None

    def remove(self, pack: str) -> None:
        """A pack has left memory; how often it was asked for is remembered."""
        self._window.pop(pack, None)
        self._main.pop(pack, None)
        self._entries.pop(pack, None)

    def forget(self, pack: str) -> None:
        """A pack is no more."""
        self.remove(pack)
        self._hits.pop(pack, None)

    def _victim(self) -> str:
        """Who goes next: the older of the window, unless it has outdone the oldest of the kept, which goes then."""
        candidate, kept = next(iter(self._window), None), next(iter(self._main), None)
        if candidate is None or kept is None:
            victim = candidate if kept is None else kept
            assert victim is not None, "pins were left out of what can be had"
            return victim
        if self._bytes(self._window) <= WINDOW_SHARE * self._cap / 2:
            return kept  # a window that holds next to nothing gives newcomers no time to be asked for again
        if self._hits.get(candidate, 0) < self._hits.get(kept, 0) + ADMISSION_MARGIN:
            return candidate
        del self._window[candidate]
        self._main[candidate] = None
        return kept

    def _settle(self) -> None:
        """While there is room among the kept, what the window cannot hold goes there without a contest."""
        room = (1 - WINDOW_SHARE) * self._cap
        for oldest in list(self._window):
            nbytes = self._entries[oldest].nbytes
            fits = self._bytes(self._main) + nbytes <= room
            if not fits or self._bytes(self._window) <= WINDOW_SHARE * self._cap:
                return
            del self._window[oldest]
            self._main[oldest] = None

    def _bytes(self, packs: OrderedDict[str, None]) -> int:
        return sum(self._entries[pack].nbytes for pack in packs)

    def _age(self) -> None:
        self._since_aging = 0
        kept = ((pack, count // 2) for pack, count in self._hits.items())
        self._hits = {pack: count for pack, count in kept if count or pack in self._entries}

    def eviction_order(self) -> Iterator[str]:
        """Unpinned residents from the first to go: newcomers before what is kept."""
        yield from self._window
        yield from self._main
