"""Packs of knowledge bases: found, built, and replaced when the documents change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from readahead_agents.llm.base import Message
from readahead_platform.gateway.llm_client import LlmClient, UpstreamAnswer
from readahead_platform.packs.builder import Keeping, PackBuilder
from readahead_platform.packs.client import PackClient
from readahead_platform.packs.finder import PackFinder
from readahead_platform.packs.kb_pack import KbPack
from readahead_platform.packs.labels import Held, Pack, uses_of, whole_use
from readahead_platform.packs.soundness import Soundness
from readahead_platform.packs.unsettled import Unsettled
from readahead_platform.packs.wishes import PackWish, PackWishes
from readahead_retrieval.library import Library
from readahead_retrieval.types import KnowledgeBase


class KbPacks:
    """Packs of knowledge bases, kept by the LLM server under the tenant's salt.

    A pack that holds what was deleted is dropped wherever it is met, and a wish for one of what is left takes its
    place: `PackUpkeep` sees to it.
    """

    def __init__(self, library: Library, llm: LlmClient, wishes: PackWishes, unsettled: Unsettled) -> None:
        self.llm = llm
        self._library = library
        self._wishes = wishes
        self._unsettled = unsettled
        self._client = PackClient(llm)
        self._finder = PackFinder(library)
        self._soundness = Soundness(library)
        self._builder = PackBuilder(library, self._client, self._finder, self._soundness)

    async def find(self, tenant: str, kb: KnowledgeBase) -> KbPack:
        """What there is. Once the pack of the present documents is ready, older ones are deleted; those that hold
        what was deleted at once, as after `forget_deleted`."""
        of_kb = await self._client.of_kb(tenant, kb.id)
        if await self._drop(tenant, await self._soundness.unsound(tenant, kb.id, of_kb)):
            of_kb = await self._client.of_kb(tenant, kb.id)
        found = await self._finder.find(tenant, kb, of_kb)
        for old in found.older if found.is_ready else ():
            if (use := whole_use(old, kb.id)) is not None:
                await self._client.release(tenant, old["id"], [use])
        return found

    async def build(self, tenant: str, kb: KnowledgeBase, keeping: Keeping) -> UpstreamAnswer:
        """As `PackBuilder.build`, once nothing deleted is left."""
        await self.forget_deleted(tenant)
        return await self._builder.build(tenant, kb, keeping)

    async def build_document(
        self, tenant: str, kb: KnowledgeBase, document_id: str, keeping: Keeping
    ) -> UpstreamAnswer:
        """As `PackBuilder.build_document`, once nothing deleted is left."""
        await self.forget_deleted(tenant)
        return await self._builder.build_document(tenant, kb, document_id, keeping)

    async def rebuild_if_stale(self, tenant: str, kb: KnowledgeBase, found: KbPack) -> KbPack:
        """Queues a new pack where the documents have changed under the one that somebody had asked for.

        Returns:
            What there is then.
        """
        if found.current is not None or not found.older:
            return found
        answer = await self.build(tenant, kb, _kept(found.older[-1]))
        return replace(found, current=json.loads(answer.body)) if answer.status == 200 else found

    async def delete(self, tenant: str, kb: KnowledgeBase) -> None:
        """Takes all packs of a knowledge base out of memory and off the disk, for good; those that another has too
        stay for that one."""
        await self._wishes.remove_all(tenant, kb.id)
        for pack in await self._client.of_kb(tenant, kb.id):
            await self._client.release(tenant, pack["id"], uses_of(pack, kb.id))

    async def give_up(self, tenant: str, pack_id: str) -> None:
        """To be called before somebody deletes a pack by its id: it isn't to come back."""
        named = [pack for pack in await self._client.list_all(tenant) if pack["id"] == pack_id]
        for wish in [PackWish.of(tenant, pack, use) for pack in named for use in uses_of(pack)]:
            await self._wishes.remove(wish)

    async def forget_deleted(self, tenant: str) -> None:
        """Deletes the packs that hold a text which their knowledge base holds no more. To be called before a pack's
        text is shown; after a deletion `PackUpkeep` does.

        Raises:
            ApiError: The LLM server does not answer.
        """
        of_kbs: dict[str, list[Pack]] = {}
        for pack in await self._client.list_all(tenant):
            for kb_id in {use.kb_id for use in uses_of(pack)}:
                of_kbs.setdefault(kb_id, []).append(pack)
        for kb_id, packs in of_kbs.items():
            await self._drop(tenant, await self._soundness.unsound(tenant, kb_id, packs))

    async def _drop(self, tenant: str, unsound: Sequence[Held]) -> bool:
        """Whether there was anything to drop."""
        for pack, use in unsound:
            await self._wishes.add(PackWish.of(tenant, pack, use))  # first: a cut between the two is taken up at start
            await self._client.release(tenant, pack["id"], [use])
        if unsound:
            self._unsettled.add(tenant)
        return bool(unsound)

    async def messages(self, tenant: str, pack_id: str) -> tuple[Message, ...]:
        """As `PackClient.messages`."""
        return await self._client.messages(tenant, pack_id)


def _kept(pack: Pack) -> Keeping:
    """As that one was."""
    return Keeping(pin=bool(pack["pin"]), ttl=pack["ttl"])
