"""Packs of knowledge bases: found, built, and replaced when the documents change."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace

from readahead_agents.llm.base import Message
from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import LlmClient, UpstreamAnswer
from readahead_platform.packs.builder import MAX_DOCUMENT_PACKS, Keeping, PackBuilder
from readahead_platform.packs.client import PackClient
from readahead_platform.packs.finder import PackFinder
from readahead_platform.packs.kb_pack import KbPack
from readahead_platform.packs.labels import Pack, document_of, kb_of
from readahead_platform.packs.purge import Purge
from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import KnowledgeBase


class KbPacks:
    """Packs of knowledge bases, kept by the LLM server under the tenant's salt."""

    def __init__(self, library: Library, llm: LlmClient) -> None:
        self.llm = llm
        self._library = library
        self._client = PackClient(llm)
        self._finder = PackFinder(library)
        self._purge = Purge(library, self._client)
        self._builder = PackBuilder(library, self._client, self._finder, self._purge)

    async def find(self, tenant: str, kb: KnowledgeBase) -> KbPack:
        """What there is. Once the pack of the present documents is ready, older ones are deleted; those that hold
        what was deleted at once, as after `forget_deleted`."""
        of_kb = await self._client.of_kb(tenant, kb.id)
        if dropped := await self._purge.run(tenant, kb.id, of_kb):
            await self._renew(tenant, kb, dropped)
            of_kb = await self._client.of_kb(tenant, kb.id)
        found = await self._finder.find(tenant, kb, of_kb)
        for old in found.older if found.is_ready else ():
            await self._client.delete(tenant, old["id"])
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
        """Takes all packs of a knowledge base out of memory and off the disk."""
        for pack in await self._client.of_kb(tenant, kb.id):
            await self._client.delete(tenant, pack["id"])

    async def forget_deleted(self, tenant: str) -> None:
        """Deletes the packs that hold a text which their knowledge base holds no more, and has them built anew without
        it. To be called after every deletion, and before a pack's text is shown.

        Raises:
            ApiError: The LLM server does not answer; the next call does it.
        """
        of_kbs: dict[str, list[Pack]] = {}
        for pack in await self._client.list_all(tenant):
            if (kb_id := kb_of(pack)) is not None:
                of_kbs.setdefault(kb_id, []).append(pack)
        known = {kb.id: kb for kb in await self._library.list_kbs(tenant)} if of_kbs else {}
        for kb_id, packs in of_kbs.items():
            dropped = await self._purge.run(tenant, kb_id, packs)
            if kb_id in known:
                await self._renew(tenant, known[kb_id], dropped)

    async def _renew(self, tenant: str, kb: KnowledgeBase, dropped: Sequence[Pack]) -> None:
        """Has packs built of what is left of those that were dropped."""
        for pack in dropped[-1 - MAX_DOCUMENT_PACKS :]:
            with contextlib.suppress(ApiError, NotFound):  # nothing is left, or the LLM server has no room for it now
                if (document_id := document_of(pack)) is None:
                    await self._builder.build(tenant, kb, _kept(pack))
                else:
                    await self._builder.build_document(tenant, kb, document_id, _kept(pack))

    async def messages(self, tenant: str, pack_id: str) -> tuple[Message, ...]:
        """As `PackClient.messages`."""
        return await self._client.messages(tenant, pack_id)


def _kept(pack: Pack) -> Keeping:
    """As that one was."""
    return Keeping(pin=bool(pack["pin"]), ttl=pack["ttl"])
