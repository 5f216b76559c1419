"""The packs of a tenant at the LLM server, which keeps them under the tenant's salt."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from readahead_agents.llm.base import Message
from readahead_agents.prompts import prompt
from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import LlmClient, UpstreamAnswer
from readahead_platform.packs.labels import Pack, PackUse, uses_of, without

MAX_CACHED_MESSAGES = 8


class PackClient:
    """/v1/packs as the gateway asks it. Every call raises `ApiError` where the LLM server does not answer."""

    def __init__(self, llm: LlmClient) -> None:
        self._llm = llm
        self._messages: OrderedDict[str, tuple[Message, ...]] = OrderedDict()
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By tenant: a pack that is asked for while its last use ends must not go with that."""

    async def list_all(self, tenant: str) -> list[Pack]:
        """Oldest first; none of a server that knows no packs."""
        answer = await self._llm.request("GET", "/v1/packs", tenant=tenant)
        if answer.status != 200:
            return []
        data: list[Pack] = json.loads(answer.body)["data"]
        return data

    async def of_kb(self, tenant: str, kb_id: str) -> list[Pack]:
        return [pack for pack in await self.list_all(tenant) if uses_of(pack, kb_id)]

    async def create(
        self, tenant: str, documents: Sequence[Mapping[str, str]], kept: Mapping[str, Any]
    ) -> UpstreamAnswer:
        """Queues a pack, or with `dry_run` among what is `kept` tells what it would cost. Equal texts are one pack,
        which then has the metadata of both."""
        system = {"role": "system", "content": prompt("pack_system").substitute()}
        body = {"messages": [system], "documents": documents, **kept}
        async with self._change(tenant):
            return await self._llm.request("POST", "/v1/packs", body, tenant=tenant)

    async def extend(
        self, tenant: str, pack_id: str, documents: Sequence[Mapping[str, str]], metadata: Mapping[str, str]
    ) -> UpstreamAnswer:
        """Queues a pack that has these documents more, and takes the other's place once it is ready; where other
        metadata names it too, that one stays."""
        body = {"documents": documents, "metadata": metadata}
        async with self._change(tenant):
            return await self._llm.request("POST", f"/v1/packs/{pack_id}/documents", body, tenant=tenant)

    async def release(self, tenant: str, pack_id: str, uses: Iterable[PackUse]) -> None:
        """Ends these uses of a pack. With its last one it is taken out of memory and off the disk; one that is gone
        already is no error."""
        path = f"/v1/packs/{pack_id}"
        async with self._change(tenant):
            answer = await self._llm.request("GET", path, tenant=tenant)
            if answer.status != 200:
                return
            if left := without(json.loads(answer.body)["metadata"], uses):
                await self._llm.request("PATCH", path, {"metadata": left}, tenant=tenant)
                return
            self._messages.pop(pack_id, None)
            await self._llm.request("DELETE", path, tenant=tenant)

    def _change(self, tenant: str) -> asyncio.Lock:
        return self._changing.setdefault(tenant, asyncio.Lock())

    async def messages(self, tenant: str, pack_id: str) -> tuple[Message, ...]:
        """What a question on a pack begins with. A pack never changes, so the texts are kept for the next question.

        Raises:
            ApiError: It is gone meanwhile.
        """
        if pack_id not in self._messages:
            answer = await self._llm.request("GET", f"/v1/packs/{pack_id}/messages", tenant=tenant)
            if answer.status != 200:
                raise ApiError(404, "The pack was deleted meanwhile: ask again.", code="pack_not_found")
            data = json.loads(answer.body)["data"]
            self._messages[pack_id] = tuple(Message(one["role"], one["content"]) for one in data)
            while len(self._messages) > MAX_CACHED_MESSAGES:
                self._messages.popitem(last=False)
        self._messages.move_to_end(pack_id)
        return self._messages[pack_id]
