"""Tenants whose packs may hold what was deleted, or lack what is owed."""

from __future__ import annotations

import asyncio


class Unsettled:
    """Each tenant once, however often it is added: looking through its packs takes care of all that has happened."""

    def __init__(self) -> None:
        self._tenants: dict[str, None] = {}
        self._added = asyncio.Event()

    def add(self, tenant: str) -> None:
        """Returns at once."""
        self._tenants[tenant] = None
        self._added.set()

    async def take(self) -> str:
        """The one that has waited longest, once there is any."""
        while not self._tenants:
            self._added.clear()
            await self._added.wait()
        tenant = next(iter(self._tenants))
        del self._tenants[tenant]
        return tenant
