"""What was read of documents: whole texts and pages, as they are and as answers may use them."""

from __future__ import annotations

from readahead_retrieval.store import documents, knowledge_bases, pages, texts
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import DocumentState, DocumentText, Page


class Texts:
    """As in `Library`, what is not the tenant's raises `NotFound`, and a knowledge base is named by name or id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_kb(self, tenant: str, kb: str) -> list[DocumentText]:
        """As `of_document`, of every searchable document, oldest first: the order that changes least."""
        async with self._database.reading() as session:
            found = await knowledge_bases.get(session, tenant, kb)
            searchable = [d for d in await documents.list_all(session, found.id) if d.state == DocumentState.SEARCHABLE]
            return [await texts.load(session, document) for document in searchable]

    async def of_document(self, tenant: str, document_id: str) -> DocumentText:
        """The whole text of a document, but for what only disabled chunks hold."""
        async with self._database.reading() as session:
            return await texts.load(session, documents.document_of(await documents.get(session, tenant, document_id)))

    async def chars(self, tenant: str, kb: str) -> int:
        """How many characters `of_kb` would give, without reading them."""
        async with self._database.reading() as session:
            found = await knowledge_bases.get(session, tenant, kb)
            return await pages.text_chars(session, found.id)

    async def pages(self, tenant: str, document_id: str, first: int = 1, last: int | None = None) -> list[Page]:
        """The read pages `first` to `last` (1-based, both included) without their words, in order."""
        async with self._database.reading() as session:
            row = await documents.get(session, tenant, document_id)
            return await pages.load_text(session, row.id, first, last)

    async def visible_pages(self, tenant: str, document_id: str, first: int = 1, last: int | None = None) -> list[Page]:
        """As `pages`, but for what only disabled chunks hold: what answers may be made of."""
        async with self._database.reading() as session:
            row = await documents.get(session, tenant, document_id)
            return await texts.load_pages(session, row.id, first, last)
