"""Which packs there are of a knowledge base as it is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from readahead_platform.packs.kb_pack import KbPack
from readahead_platform.packs.labels import Pack, content_of, uses_of, whole_use
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, DocumentState, KnowledgeBase


class PackFinder:
    """Holds the LLM server's list against the library's."""

    def __init__(self, library: Library) -> None:
        self._library = library

    async def find(self, tenant: str, kb: KnowledgeBase, of_kb: Sequence[Pack]) -> KbPack:
        """What there is, sound or not: see `Soundness`.

        Args:
            of_kb: All packs of the knowledge base.
        """
        listed = await self._library.list_documents(tenant, kb.id)
        searchable = [document for document in listed if document.state == DocumentState.SEARCHABLE]
        content = content_of(searchable)
        whole = [(pack, use.content) for pack in of_kb if (use := whole_use(pack, kb.id)) is not None]
        return KbPack(
            current=next((pack for pack, held in whole if held == content), None),
            older=tuple(pack for pack, held in whole if held != content),
            of_documents=_of_documents(kb, of_kb, searchable),
            content=content,
            documents=tuple(searchable),
            pending=sum(not document.finished for document in listed),
        )


def _of_documents(kb: KnowledgeBase, packs: Sequence[Pack], documents: Sequence[Document]) -> Mapping[str, Pack]:
    """Those that hold their document as it is now."""
    contents = {document.id: content_of([document]) for document in documents}
    held = [(use, pack) for pack in packs for use in uses_of(pack, kb.id) if use.document_id is not None]
    return {
        use.document_id: pack for use, pack in held if use.document_id and contents.get(use.document_id) == use.content
    }
