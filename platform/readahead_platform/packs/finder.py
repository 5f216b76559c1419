"""Which packs there are of a knowledge base as it is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from readahead_platform.packs.kb_pack import KbPack
from readahead_platform.packs.labels import Pack, content_of, document_of, held_content
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
        whole = [pack for pack in of_kb if document_of(pack) is None]
        return KbPack(
            current=next((pack for pack in whole if held_content(pack) == content), None),
            older=tuple(pack for pack in whole if held_content(pack) != content),
            of_documents=_of_documents(of_kb, searchable),
            content=content,
            documents=tuple(searchable),
            pending=sum(not document.finished for document in listed),
        )


def _of_documents(packs: Sequence[Pack], documents: Sequence[Document]) -> Mapping[str, Pack]:
    """Those that hold their document as it is now."""
    contents = {document.id: content_of([document]) for document in documents}
    single = {document_id: pack for pack in packs if (document_id := document_of(pack)) is not None}
    return {
        document_id: pack for document_id, pack in single.items() if held_content(pack) == contents.get(document_id)
    }
