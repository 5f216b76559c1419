"""Keeps packs true behind the calls: drops what holds deleted texts, and has built again what was dropped for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable

from readahead_platform.errors import ApiError
from readahead_platform.packs.builder import Keeping
from readahead_platform.packs.kb_pack import READY, KbPack
from readahead_platform.packs.kb_packs import KbPacks
from readahead_platform.packs.labels import Pack
from readahead_platform.packs.unsettled import Unsettled
from readahead_platform.packs.wishes import PackWish, PackWishes
from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import KnowledgeBase

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 60.0
MAX_BUILDS = 5
"""Times that a pack is asked for whose building fails; the LLM server being away is no such time."""


class PackUpkeep:
    """Looks through the packs of unsettled tenants until they are settled, ever more slowly.

    Who deletes something does not wait for it: between a deletion and its end here, a pack that holds the text is shown
    to nobody (`KbPacks.find` and `forget_deleted` look for themselves).
    """

    def __init__(self, library: Library, packs: KbPacks, wishes: PackWishes, unsettled: Unsettled) -> None:
        self._library = library
        self._packs = packs
        self._wishes = wishes
        self._unsettled = unsettled
        self._pauses: dict[str, float] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}
        self._builds: Counter[PackWish] = Counter()

    @contextlib.asynccontextmanager
    async def running(self, tenants: Iterable[str]) -> AsyncIterator[None]:
        """Works until the block ends.

        Args:
            tenants: To begin with; what an earlier gateway had left to do.
        """
        for tenant in tenants:
            self._unsettled.add(tenant)
        work = asyncio.create_task(self._run(), name="pack upkeep")
        try:
            yield
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            for timer in self._waiting.values():
                timer.cancel()

    async def _run(self) -> None:
        while True:
            tenant = await self._unsettled.take()
            try:
                settled = await self._settle(tenant)
            except ApiError as error:
                logger.info("The packs of %s will be looked through later: %s", tenant, error.message)
                settled = False
            except Exception:  # the top of a loop: one tenant's trouble must not end the upkeep of all others' packs
                logger.exception("The packs of %s could not be looked through", tenant)
                settled = False
            self._look_again(tenant, settled=settled)

    def _look_again(self, tenant: str, *, settled: bool) -> None:
        if waiting := self._waiting.pop(tenant, None):
            waiting.cancel()
        if settled:
            self._pauses.pop(tenant, None)
            return
        pause = self._pauses.get(tenant, FIRST_PAUSE_S)
        self._pauses[tenant] = min(2 * pause, LONGEST_PAUSE_S)
        self._waiting[tenant] = asyncio.get_running_loop().call_later(pause, self._unsettled.add, tenant)

    async def _settle(self, tenant: str) -> bool:
        """Whether nothing is left to do."""
        await self._packs.forget_deleted(tenant)
        left = [await self._is_owed(wish) for wish in await self._wishes.of_tenant(tenant)]
        return not any(left)

    async def _is_owed(self, wish: PackWish) -> bool:
        """Asks for the pack where that is not done; whether it still is to come."""
        try:
            kb = await self._library.get_kb(wish.tenant, wish.kb_id)
        except NotFound:
            return await self._end(wish)
        found = await self._packs.find(wish.tenant, kb)
        pack = found.current if wish.document_id is None else found.of_documents.get(wish.document_id)
        if pack is not None and _was_built(pack):
            return await self._end(wish)
        if pack is not None and pack["state"] != "failed":
            return True
        return await self._ask(wish, kb, found)

    async def _ask(self, wish: PackWish, kb: KnowledgeBase, found: KbPack) -> bool:
        if self._builds[wish] >= MAX_BUILDS:
            logger.warning("A pack of %s is not built again: it failed %d times", kb.name, MAX_BUILDS)
            return await self._end(wish)
        status, told = await self._asked(wish, kb)
        if status == 200:
            self._builds[wish] += 1
        elif status in _HOPELESS and not found.pending:
            logger.info("A pack of %s is not built again: %s", kb.name, told)
            return await self._end(wish)
        return True

    async def _asked(self, wish: PackWish, kb: KnowledgeBase) -> tuple[int, str]:
        """The answer's status, and what it says."""
        keeping = Keeping(pin=wish.pin, ttl=wish.ttl)
        try:
            if wish.document_id is None:
                answer = await self._packs.build(wish.tenant, kb, keeping)
            else:
                answer = await self._packs.build_document(wish.tenant, kb, wish.document_id, keeping)
        except NotFound as error:
            return 404, error.message
        except ApiError as error:
            return error.status, error.message
        return answer.status, answer.body.decode(errors="replace")

    async def _end(self, wish: PackWish) -> bool:
        self._builds.pop(wish, None)
        await self._wishes.remove(wish)
        return False


_HOPELESS = {400, 404}
"""Nothing is left to build a pack of, or it fits no more."""


def _was_built(pack: Pack) -> bool:
    """It is there, or was until others took its place."""
    return pack["state"] in READY or (pack["state"] == "stale" and str(pack["reason"]).startswith("evicted"))
