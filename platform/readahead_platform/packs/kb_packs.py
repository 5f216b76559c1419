"""A knowledge base's pack: made from its documents, found again, and replaced when they change."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from readahead_agents.llm.base import Message
from readahead_agents.prompts import prompt
from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import LlmClient, UpstreamAnswer
from readahead_platform.routing.facts import NO_PACK, PackOffer
from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, DocumentState, KnowledgeBase

READY = frozenset({"resident", "on_disk"})
BUILDING = frozenset({"building", "stale"})
MAX_CACHED_MESSAGES = 8
MAX_PROVED = 1000
MAX_NAME_CHARS = 200
MAX_DOCUMENT_PACKS = 8
"""Packs of single documents that one knowledge base may have; a new one takes the place of the one unused longest."""
_KB, _CONTENT, _DOCUMENT = "kb", "content", "document"
Pack = Mapping[str, Any]
"""As /v1/packs shows it."""


@dataclass(frozen=True, slots=True)
class KbPack:
    """What the LLM server holds of a knowledge base."""

    current: Pack | None = None
    """The pack of the documents as they are now."""
    older: tuple[Pack, ...] = ()
    """Packs of what the documents were."""
    of_documents: Mapping[str, Pack] = field(default_factory=dict)
    """Packs of single documents that there still are, by the document's id."""
    content: str = ""
    """Names what the knowledge base holds now."""
    documents: tuple[Document, ...] = ()
    """Those that are searchable."""
    pending: int = 0
    """Documents on their way there."""

    @property
    def is_ready(self) -> bool:
        return self.current is not None and self.current["state"] in READY

    @property
    def shared_tokens(self) -> int:
        """Tokens that the pack under construction has in common with one of before, ahead of the first document that
        differs. A question on the new texts reads them there, and nothing behind them."""
        if self.current is None or self.current["state"] not in BUILDING:
            return 0
        return max((_shared(self.current, old) for old in self.older if old["state"] in READY), default=0)

    @property
    def changed(self) -> int:
        """Documents that were added, removed or changed since the newest of the older packs."""
        if self.current is not None or not self.older:
            return 0
        held = Counter(document["title"] for document in self.older[-1]["documents"])
        now = Counter(document.name for document in self.documents)
        return max(1, (held - now).total() + (now - held).total())

    def shown(self) -> Pack | None:
        """For people: the current pack, else the last one, which is stale because the documents have changed."""
        if self.current is not None or not self.older:
            return self.current
        return {**self.older[-1], "state": "stale", "reason": "documents_changed: documents were added or removed"}

    def offer(self) -> PackOffer:
        shown = self.shown()
        if shown is None:
            return NO_PACK
        if self.is_ready:
            return PackOffer(is_ready=True, tokens=int(shown["tokens"]), **_measured(shown))
        if shared := self.shared_tokens:
            tokens = int(shown["tokens"])
            return PackOffer(is_ready=True, tokens=tokens, delta_tokens=tokens - shared, state=str(shown["state"]))
        return _not_ready(shown)

    def document_offer(self, document_id: str) -> PackOffer:
        """What the pack of one document could do."""
        pack = self.of_documents.get(document_id)
        if pack is None:
            return NO_PACK
        if pack["state"] not in READY:
            return _not_ready(pack)
        return PackOffer(is_ready=True, tokens=int(pack["tokens"]), **_measured(pack))


class KbPacks:
    """Packs of knowledge bases, kept by the LLM server under the tenant's salt."""

    def __init__(self, library: Library, llm: LlmClient) -> None:
        self._library = library
        self.llm = llm
        self._messages: OrderedDict[str, tuple[Message, ...]] = OrderedDict()
        self._proved: OrderedDict[str, str] = OrderedDict()
        """By pack, the content under which it was found to hold nothing deleted, so that texts are read once for it."""

    async def find(self, tenant: str, kb: KnowledgeBase) -> KbPack:
        """What there is. Once the pack of the present documents is ready, older ones are deleted; those that hold
        what was deleted at once, as after `forget_deleted`."""
        packs = await self._of_kb(tenant, kb.id)
        if dropped := await self._drop_deleted(tenant, kb.id, packs):
            await self._renew(tenant, kb, dropped)
            packs = await self._of_kb(tenant, kb.id)
        found = await self._found(tenant, kb, packs)
        for old in found.older if found.is_ready else ():
            await self._delete(tenant, old)
        return found

    async def _found(self, tenant: str, kb: KnowledgeBase, of_kb: Sequence[Pack]) -> KbPack:
        listed = await self._library.list_documents(tenant, kb.id)
        searchable = [document for document in listed if document.state == DocumentState.SEARCHABLE]
        content, contents = _content(searchable), {document.id: _content([document]) for document in searchable}
        whole = [pack for pack in of_kb if _DOCUMENT not in pack["metadata"]]
        single = {pack["metadata"][_DOCUMENT]: pack for pack in of_kb if _DOCUMENT in pack["metadata"]}
        return KbPack(
            current=next((pack for pack in whole if pack["metadata"].get(_CONTENT) == content), None),
            older=tuple(pack for pack in whole if pack["metadata"].get(_CONTENT) != content),
            of_documents={document_id: pack for document_id, pack in single.items() if _is_of(pack, contents)},
            content=content,
            documents=tuple(searchable),
            pending=sum(not document.finished for document in listed),
        )

    async def build(
        self, tenant: str, kb: KnowledgeBase, *, pin: bool = False, ttl: float | None = None, dry_run: bool = False
    ) -> UpstreamAnswer:
        """Has the pack built beside the one there is. Documents added at the end extend that one.

        Raises:
            ApiError: The knowledge base has no searchable document, or one was deleted while this was asked for.
        """
        await self.forget_deleted(tenant)
        return await self._build(tenant, kb, pin=pin, ttl=ttl, dry_run=dry_run)

    async def _build(
        self, tenant: str, kb: KnowledgeBase, *, pin: bool, ttl: float | None, dry_run: bool = False
    ) -> UpstreamAnswer:
        texts = await self._library.document_texts(tenant, kb.id)
        if not texts:
            message = f"{kb.name} has no searchable document to build a pack from."
            raise ApiError(400, message, param="vector_store", code="knowledge_base_empty")
        documents = [{"title": one.document.name, "text": one.text} for one in texts]
        metadata = {_KB: kb.id, _CONTENT: _content([one.document for one in texts])}
        found = await self._found(tenant, kb, await self._of_kb(tenant, kb.id))
        extended = None if dry_run or found.current else _extended(found.older, documents)
        if extended is not None:
            body = {"documents": documents[len(extended["documents"]) :], "metadata": metadata}
            return await self._asked(tenant, f"/v1/packs/{extended['id']}/documents", kb.id, body)
        whole = {"name": kb.name, "metadata": metadata, "pin": pin, "ttl": ttl, "dry_run": dry_run}
        return await self._create(tenant, documents, whole)

    async def build_document(
        self,
        tenant: str,
        kb: KnowledgeBase,
        document_id: str,
        *,
        pin: bool = False,
        ttl: float | None = None,
        dry_run: bool = False,
    ) -> UpstreamAnswer:
        """Has the pack of one document built, for a knowledge base that is too large to be read whole.

        Raises:
            ApiError: The knowledge base has no such searchable document, or as many pinned packs as it may have, or
                the document was deleted while this was asked for.
        """
        await self.forget_deleted(tenant)
        return await self._build_document(tenant, kb, document_id, pin=pin, ttl=ttl, dry_run=dry_run)

    async def _build_document(
        self,
        tenant: str,
        kb: KnowledgeBase,
        document_id: str,
        *,
        pin: bool,
        ttl: float | None,
        dry_run: bool = False,
    ) -> UpstreamAnswer:
        found = await self._found(tenant, kb, await self._of_kb(tenant, kb.id))
        document = next((one for one in found.documents if one.id == document_id), None)
        if document is None:
            message = f"{kb.name} has no searchable document {document_id!r}."
            raise ApiError(404, message, param="document", code="document_not_found")
        if not dry_run and document_id not in found.of_documents:
            await self._make_room(tenant, kb, found.of_documents)
        read = await self._library.document_text(tenant, document_id)
        metadata = {_KB: kb.id, _DOCUMENT: document_id, _CONTENT: _content([read.document])}
        name = f"{kb.name}: {document.name}"[:MAX_NAME_CHARS]
        kept = {"name": name, "metadata": metadata, "pin": pin, "ttl": ttl, "dry_run": dry_run}
        return await self._create(tenant, [{"title": document.name, "text": read.text}], kept)

    async def _make_room(self, tenant: str, kb: KnowledgeBase, packs: Mapping[str, Pack]) -> None:
        if len(packs) < MAX_DOCUMENT_PACKS:
            return
        oldest = min((pack for pack in packs.values() if not pack["pin"]), key=lambda p: p["used_at"], default=None)
        if oldest is None:
            message = f"{kb.name} has {len(packs)} packs of documents, all of them pinned; delete one, or unpin it."
            raise ApiError(400, message, param="document", code="too_many_document_packs")
        await self._delete(tenant, oldest)

    async def _create(
        self, tenant: str, documents: Sequence[Mapping[str, str]], kept: Mapping[str, Any]
    ) -> UpstreamAnswer:
        system = {"role": "system", "content": prompt("pack_system").substitute()}
        body = {"messages": [system], "documents": documents, **kept}
        return await self._asked(tenant, "/v1/packs", kept["metadata"][_KB], body)

    async def _asked(self, tenant: str, path: str, kb_id: str, body: Mapping[str, Any]) -> UpstreamAnswer:
        """Asks for a pack, and looks again: a deletion since its texts were read has found no pack to drop."""
        answer = await self.llm.request("POST", path, body, tenant=tenant)
        made = json.loads(answer.body) if answer.status == 200 else {}
        if "id" in made and await self._drop_deleted(tenant, kb_id, [made]):  # an estimate has none
            message = "A document was deleted or changed while its pack was asked for: ask again."
            raise ApiError(409, message, param="vector_store", code="documents_changed")
        return answer

    async def rebuild_if_stale(self, tenant: str, kb: KnowledgeBase, found: KbPack) -> KbPack:
        """Queues a new pack where the documents have changed under the one that somebody had asked for.

        Returns:
            What there is then.
        """
        if found.current is not None or not found.older:
            return found
        answer = await self.build(tenant, kb, pin=bool(found.older[-1]["pin"]), ttl=found.older[-1]["ttl"])
        return replace(found, current=json.loads(answer.body)) if answer.status == 200 else found

    async def delete(self, tenant: str, kb: KnowledgeBase) -> None:
        """Takes all packs of a knowledge base out of memory and off the disk."""
        for pack in await self._of_kb(tenant, kb.id):
            await self._delete(tenant, pack)

    async def forget_deleted(self, tenant: str) -> None:
        """Deletes the packs that hold a text which their knowledge base holds no more, and has them built anew without
        it. To be called after every deletion, and before a pack's text is shown.

        Raises:
            ApiError: The LLM server does not answer; the next call does it.
        """
        of_kbs: dict[str, list[Pack]] = {}
        for pack in await self._packs(tenant):
            if (kb_id := pack["metadata"].get(_KB)) is not None:
                of_kbs.setdefault(kb_id, []).append(pack)
        known = {kb.id: kb for kb in await self._library.list_kbs(tenant)} if of_kbs else {}
        for kb_id, packs in of_kbs.items():
            dropped = await self._drop_deleted(tenant, kb_id, packs)
            if kb_id in known:
                await self._renew(tenant, known[kb_id], dropped)

    async def _drop_deleted(self, tenant: str, kb_id: str, packs: Sequence[Pack]) -> list[Pack]:
        """Deletes those of a knowledge base's packs that hold a text which it holds no more.

        Returns:
            What was deleted.
        """
        try:
            listed = await self._library.list_documents(tenant, kb_id)
            searchable = [document for document in listed if document.state == DocumentState.SEARCHABLE]
            content = _content(searchable)
            sound = {content, *(_content([document]) for document in searchable)}
            doubted = [pack for pack in packs if pack["metadata"].get(_CONTENT) not in sound]
            doubted = [pack for pack in doubted if self._proved.get(pack["id"]) != content]
            texts = await self._library.document_texts(tenant, kb_id) if doubted else []
        except NotFound:  # the knowledge base itself is no more
            content, doubted, texts = "", list(packs), []
        held = {hashlib.sha256(one.text.encode()).hexdigest() for one in texts}
        gone = []
        for pack in doubted:
            whole = _DOCUMENT not in pack["metadata"]
            if whole and pack["documents"] and all(document["sha256"] in held for document in pack["documents"]):
                self._prove(pack["id"], content)
            else:
                await self._delete(tenant, pack)
                gone.append(pack)
        return gone

    def _prove(self, pack_id: str, content: str) -> None:
        self._proved[pack_id] = content
        while len(self._proved) > MAX_PROVED:
            self._proved.popitem(last=False)

    async def _renew(self, tenant: str, kb: KnowledgeBase, dropped: Sequence[Pack]) -> None:
        """Has packs built of what is left of those that were dropped."""
        for pack in dropped[-1 - MAX_DOCUMENT_PACKS :]:
            document_id: str | None = pack["metadata"].get(_DOCUMENT)
            kept: dict[str, Any] = {"pin": bool(pack["pin"]), "ttl": pack["ttl"]}
            with contextlib.suppress(ApiError, NotFound):  # nothing is left, or the LLM server has no room for it now
                if document_id is None:
                    await self._build(tenant, kb, **kept)
                else:
                    await self._build_document(tenant, kb, document_id, **kept)

    async def _delete(self, tenant: str, pack: Pack) -> None:
        self._messages.pop(pack["id"], None)
        self._proved.pop(pack["id"], None)
        await self.llm.request("DELETE", f"/v1/packs/{pack['id']}", tenant=tenant)

    async def messages(self, tenant: str, pack_id: str) -> tuple[Message, ...]:
        """What a question on a pack begins with. A pack never changes, so the texts are kept for the next question.

        Raises:
            ApiError: It is gone meanwhile.
        """
        if pack_id not in self._messages:
            answer = await self.llm.request("GET", f"/v1/packs/{pack_id}/messages", tenant=tenant)
            if answer.status != 200:
                raise ApiError(404, "The pack was deleted meanwhile: ask again.", code="pack_not_found")
            data = json.loads(answer.body)["data"]
            self._messages[pack_id] = tuple(Message(one["role"], one["content"]) for one in data)
            while len(self._messages) > MAX_CACHED_MESSAGES:
                self._messages.popitem(last=False)
        self._messages.move_to_end(pack_id)
        return self._messages[pack_id]

    async def _packs(self, tenant: str) -> list[dict[str, Any]]:
        answer = await self.llm.request("GET", "/v1/packs", tenant=tenant)
        if answer.status != 200:
            return []  # another LLM server, which has no packs
        data: list[dict[str, Any]] = json.loads(answer.body)["data"]
        return data

    async def _of_kb(self, tenant: str, kb_id: str) -> list[dict[str, Any]]:
        return [pack for pack in await self._packs(tenant) if pack["metadata"].get(_KB) == kb_id]


def _not_ready(pack: Pack) -> PackOffer:
    reason = f" ({pack['reason']})" if pack["reason"] else ""
    return PackOffer(is_ready=False, why_not=f"Its pack is {pack['state']}{reason}.", state=str(pack["state"]))


def _measured(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Of a ready pack, what a route is chosen by."""
    computed, seconds, tokens = shown.get("tokens_computed"), shown.get("build_s"), int(shown["tokens"])
    whole_s = seconds * tokens / computed if seconds and computed else None  # one that extends another read only a part
    return {"state": str(shown["state"]), "build_s": whole_s, "nbytes": int(shown.get("bytes") or 0)}


def _content(documents: Sequence[Document]) -> str:
    """Names what a pack holds: the documents, in order, but for what a person took out of answers.

    The same bytes are the same document.
    """
    names = (f"{one.id}:{one.revision}" if one.revision else one.id for one in documents)
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:32]


def _is_of(pack: Pack, contents: Mapping[str, str]) -> bool:
    """Whether the pack of one document holds it as it is now."""
    held: Mapping[str, str] = pack["metadata"]
    return held.get(_CONTENT) == contents.get(held[_DOCUMENT])


def _shared(new: Mapping[str, Any], old: Mapping[str, Any]) -> int:
    """Tokens of the documents that both packs begin with."""
    tokens = 0
    for one, other in zip(new["documents"], old["documents"], strict=False):
        if (one["title"], one["sha256"]) != (other["title"], other["sha256"]):
            break
        tokens = int(one["end_token"])
    return tokens


def _extended(older: Sequence[Mapping[str, Any]], documents: Sequence[Mapping[str, str]]) -> Mapping[str, Any] | None:
    """The longest ready pack whose documents the new ones begin with."""
    digests = [(one["title"], hashlib.sha256(one["text"].encode()).hexdigest()) for one in documents]
    for pack in sorted(older, key=lambda pack: len(pack["documents"]), reverse=True):
        held = [(one["title"], one["sha256"]) for one in pack["documents"]]
        if pack["state"] in READY and held and len(held) < len(digests) and digests[: len(held)] == held:
            return pack
    return None
