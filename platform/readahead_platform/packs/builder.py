"""Has packs built: of a whole knowledge base, or of one of its documents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import UpstreamAnswer
from readahead_platform.packs.client import PackClient
from readahead_platform.packs.finder import PackFinder
from readahead_platform.packs.kb_pack import READY
from readahead_platform.packs.labels import Pack, use_of, uses_of
from readahead_platform.packs.soundness import Soundness
from readahead_retrieval.library import Library
from readahead_retrieval.types import KnowledgeBase

MAX_NAME_CHARS = 200
MAX_DOCUMENT_PACKS = 8
"""Packs of single documents that one knowledge base may have; a new one takes the place of the one unused longest."""
Text = Mapping[str, str]
"""Title and text of a document."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a pack is kept."""

    pin: bool = False
    ttl: float | None = None
    """Seconds after the last question; None keeps it."""
    dry_run: bool = False
    """Builds nothing, and tells what it would cost."""


class PackBuilder:
    """Reads the texts, asks for the pack, and looks again whether they still may be in it."""

    def __init__(self, library: Library, client: PackClient, finder: PackFinder, soundness: Soundness) -> None:
        self._library = library
        self._client = client
        self._finder = finder
        self._soundness = soundness

    async def build(self, tenant: str, kb: KnowledgeBase, keeping: Keeping) -> UpstreamAnswer:
        """Beside the pack there is. Documents added at the end extend that one.

        Raises:
            ApiError: The knowledge base has no searchable document, or one was deleted while this was asked for.
        """
        texts = await self._library.texts.of_kb(tenant, kb.id)
        if not texts:
            message = f"{kb.name} has no searchable document to build a pack from."
            raise ApiError(400, message, param="vector_store", code="knowledge_base_empty")
        documents = [{"title": one.document.name, "text": one.text} for one in texts]
        metadata = use_of(kb.id, [one.document for one in texts]).label()
        found = await self._finder.find(tenant, kb, await self._client.of_kb(tenant, kb.id))
        extended = None if keeping.dry_run or found.current else _extended(found.older, documents)
        if extended is not None:
            added = documents[len(extended["documents"]) :]
            answer = await self._client.extend(tenant, extended["id"], added, metadata)
        else:
            kept = {"name": kb.name, "metadata": metadata, **asdict(keeping)}
            answer = await self._client.create(tenant, documents, kept)
        return await self._proved(tenant, kb, answer)

    async def build_document(
        self, tenant: str, kb: KnowledgeBase, document_id: str, keeping: Keeping
    ) -> UpstreamAnswer:
        """The pack of one document, for a knowledge base that is too large to be read whole.

        Raises:
            ApiError: The knowledge base has no such searchable document, or as many pinned packs as it may have, or
                the document was deleted while this was asked for.
        """
        found = await self._finder.find(tenant, kb, await self._client.of_kb(tenant, kb.id))
        document = next((one for one in found.documents if one.id == document_id), None)
        if document is None:
            message = f"{kb.name} has no searchable document {document_id!r}."
            raise ApiError(404, message, param="document", code="document_not_found")
        if not keeping.dry_run and document_id not in found.of_documents:
            await self._make_room(tenant, kb, found.of_documents)
        read = await self._library.texts.of_document(tenant, document_id)
        metadata = use_of(kb.id, [read.document], single=True).label()
        name = f"{kb.name}: {document.name}"[:MAX_NAME_CHARS]
        kept = {"name": name, "metadata": metadata, **asdict(keeping)}
        answer = await self._client.create(tenant, [{"title": document.name, "text": read.text}], kept)
        return await self._proved(tenant, kb, answer)

    async def _make_room(self, tenant: str, kb: KnowledgeBase, packs: Mapping[str, Pack]) -> None:
        if len(packs) < MAX_DOCUMENT_PACKS:
            return
        unpinned = [document_id for document_id, pack in packs.items() if not pack["pin"]]
        if not unpinned:
            message = f"{kb.name} has {len(packs)} packs of documents, all of them pinned; delete one, or unpin it."
            raise ApiError(400, message, param="document", code="too_many_document_packs")
        oldest = min(unpinned, key=lambda document_id: packs[document_id]["used_at"])
        uses = [use for use in uses_of(packs[oldest], kb.id) if use.document_id == oldest]
        await self._client.release(tenant, packs[oldest]["id"], uses)

    async def _proved(self, tenant: str, kb: KnowledgeBase, answer: UpstreamAnswer) -> UpstreamAnswer:
        """Looks again: a deletion since the texts were read has found no pack to drop."""
        made = json.loads(answer.body) if answer.status == 200 else {}
        unsound = await self._soundness.unsound(tenant, kb.id, [made]) if "id" in made else []  # an estimate has none
        if unsound:
            await self._client.release(tenant, made["id"], [use for _, use in unsound])
            message = "A document was deleted or changed while its pack was asked for: ask again."
            raise ApiError(409, message, param="vector_store", code="documents_changed")
        return answer


def _extended(older: Sequence[Pack], documents: Sequence[Text]) -> Pack | None:
    """The longest ready pack whose documents the new ones begin with."""
    digests = [(one["title"], hashlib.sha256(one["text"].encode()).hexdigest()) for one in documents]
    for pack in sorted(older, key=lambda pack: len(pack["documents"]), reverse=True):
        held = [(one["title"], one["sha256"]) for one in pack["documents"]]
        if pack["state"] in READY and held and len(held) < len(digests) and digests[: len(held)] == held:
            return pack
    return None
