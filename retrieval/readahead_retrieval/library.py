"""The library: everything retrieval does, by tenant. What platform and agents call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from readahead_retrieval.citation import Citer
from readahead_retrieval.embedders.windowed import WindowedEmbedder
from readahead_retrieval.embedding import Embedder
from readahead_retrieval.errors import NotFound
from readahead_retrieval.ingest.pipeline import read_limits
from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.pdf.images import PageImage, PageImages
from readahead_retrieval.search import Searcher
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.store import documents, files, jobs, knowledge_bases, pages
from readahead_retrieval.store.blobs import Blobs
from readahead_retrieval.store.home import Home, HomeLock
from readahead_retrieval.store.migrate import migrate
from readahead_retrieval.store.names import clean_file_name, new_id
from readahead_retrieval.store.session import Database, sqlite_url
from readahead_retrieval.tokens import TokenCounter
from readahead_retrieval.types import (
    Box,
    Citation,
    Document,
    DocumentState,
    DocumentText,
    Evidence,
    KnowledgeBase,
    StoredFile,
)


class Library:
    """Documents in, evidence out.

    Every method takes the tenant, and finds nothing of another: what is not the tenant's raises `NotFound`, exactly as
    if it did not exist. A knowledge base is named by its name or its id. Methods may be called from one event loop at
    the same time; none blocks it.
    """

    def __init__(
        self,
        settings: RetrievalSettings,
        lock: HomeLock,
        database: Database,
        blobs: Blobs,
        embedder: Embedder,
        ingestion: Ingestion,
    ) -> None:
        self._images = PageImages(read_limits(settings))
        self._lock = lock
        self._database = database
        self._blobs = blobs
        self._ingestion = ingestion
        self._searcher = Searcher(settings, database, embedder, ingestion)
        self._citer = Citer(database, embedder)

    @classmethod
    async def open(cls, settings: RetrievalSettings, embedder: Embedder, counter: TokenCounter) -> Self:
        """Brings the database up to date, puts interrupted jobs back in the queue and starts the workers.

        Raises:
            LibraryInUse: when another process has opened the same home.
        """
        home, embedder = Home(settings.home.expanduser()), WindowedEmbedder(embedder, counter)
        async with AsyncExitStack() as on_failure:
            lock = await asyncio.to_thread(HomeLock, home)
            on_failure.callback(lock.release)
            url = settings.database_url or sqlite_url(home.database)
            await asyncio.to_thread(migrate, url)
            database, blobs = Database(url), Blobs(home.files, settings.max_file_bytes)
            on_failure.push_async_callback(database.close)
            ingestion = Ingestion(settings, home, database, blobs, embedder, counter)
            on_failure.push_async_callback(ingestion.close)
            await ingestion.start()
            on_failure.pop_all()
        return cls(settings, lock, database, blobs, embedder, ingestion)

    async def close(self) -> None:
        """Stops the workers; what they had not finished is resumed by the next open."""
        await self._ingestion.close()
        await self._database.close()
        self._lock.release()

    # Knowledge bases

    async def create_kb(self, tenant: str, name: str) -> KnowledgeBase:
        """Raises `AlreadyExists` and `InvalidName`."""
        async with self._database.writing() as session:
            return await knowledge_bases.create(session, tenant, name)

    async def list_kbs(self, tenant: str) -> list[KnowledgeBase]:
        """Oldest first."""
        async with self._database.reading() as session:
            return await knowledge_bases.list_all(session, tenant)

    async def get_kb(self, tenant: str, name_or_id: str) -> KnowledgeBase:
        async with self._database.reading() as session:
            return await knowledge_bases.get(session, tenant, name_or_id)

    async def delete_kb(self, tenant: str, name_or_id: str) -> None:
        """With its documents; the files stay."""
        async with self._database.writing() as session:
            kb = await knowledge_bases.get(session, tenant, name_or_id)
            held = await documents.list_all(session, kb.id)
            await knowledge_bases.remove(session, kb.id)
        await self._ingestion.kb_removed(kb.id, [document.id for document in held])

    # Files

    async def save_file(
        self, tenant: str, name: str, data: AsyncIterator[bytes], purpose: str = "assistants"
    ) -> StoredFile:
        """Streams to disk. Raises `DocumentError` (`too_large`) and `InvalidName`."""
        name = clean_file_name(name)
        file_id = new_id("file-")
        saved = await self._blobs.save(tenant, file_id, data)
        async with self._database.writing() as session:
            return await files.add(session, tenant, file_id, name, purpose, saved)

    async def list_files(self, tenant: str) -> list[StoredFile]:
        """Oldest first."""
        async with self._database.reading() as session:
            return await files.list_all(session, tenant)

    async def get_file(self, tenant: str, file_id: str) -> StoredFile:
        async with self._database.reading() as session:
            return await files.get(session, tenant, file_id)

    async def file_path(self, tenant: str, file_id: str) -> Path:
        """Where the bytes are, to be read and never written."""
        await self.get_file(tenant, file_id)
        return self._blobs.path(tenant, file_id)

    async def delete_file(self, tenant: str, file_id: str) -> None:
        """With every document made from it: what is deleted answers no more."""
        async with self._database.writing() as session:
            await files.get(session, tenant, file_id)
            made = await documents.of_file(session, file_id)
            await files.remove(session, file_id)
        for row in made:
            self._ingestion.removed(row.kb_id, row.id)
        await self._blobs.delete(tenant, file_id)

    # Documents

    async def add_document(self, tenant: str, kb: str, file_id: str, password: str | None = None) -> Document:
        """Queues the file to be read; returns at once.

        The same bytes in the same knowledge base are the same document, which is returned as it stands; one that
        failed is tried again where that may help: the failure is retryable, or a password is given.
        """
        async with self._database.writing() as session:
            found = await knowledge_bases.get(session, tenant, kb)
            file = await files.get(session, tenant, file_id)
            row, is_new = await documents.add(session, found, file, password)
            again = row.state == DocumentState.FAILED and (row.error_retryable or password is not None)
            if again:
                await documents.requeue(session, row.id, password=password or row.password)
                await session.refresh(row)
            if is_new or again:
                await jobs.enqueue(session, row.id)
        if is_new or again:
            await self._ingestion.added()
        return documents.document_of(row)

    async def list_documents(self, tenant: str, kb: str) -> list[Document]:
        """Oldest first."""
        async with self._database.reading() as session:
            found = await knowledge_bases.get(session, tenant, kb)
            return await documents.list_all(session, found.id)

    async def get_document(self, tenant: str, document_id: str) -> Document:
        async with self._database.reading() as session:
            return documents.document_of(await documents.get(session, tenant, document_id))

    async def document_of_file(self, tenant: str, kb: str, file_id: str) -> Document:
        """The document that the file's bytes are in a knowledge base."""
        async with self._database.reading() as session:
            found = await knowledge_bases.get(session, tenant, kb)
            file = await files.get(session, tenant, file_id)
            row = await documents.of_bytes(session, found.id, file.sha256)
        if row is None:
            raise NotFound("document", file_id)
        return documents.document_of(row)

    async def document_texts(self, tenant: str, kb: str) -> list[DocumentText]:
        """The whole text of every searchable document, oldest first: the order that changes least."""
        async with self._database.reading() as session:
            found = await knowledge_bases.get(session, tenant, kb)
            searchable = [d for d in await documents.list_all(session, found.id) if d.state == DocumentState.SEARCHABLE]
            texts = [[page.text for page in await pages.load_text(session, document.id)] for document in searchable]
        return [
            DocumentText(document, "\n\n".join(text for text in read if text.strip()))
            for document, read in zip(searchable, texts, strict=True)
        ]

    async def remove_document(self, tenant: str, document_id: str) -> None:
        """It answers no more from this moment on; the index is purged of it later. The file stays."""
        async with self._database.writing() as session:
            row = await documents.get(session, tenant, document_id)
            await documents.remove(session, document_id)
        self._ingestion.removed(row.kb_id, document_id)

    async def watch(self, tenant: str, document_id: str) -> AsyncIterator[Document]:
        """The document now and at each change until it is finished. Raises `NotFound` once it is removed."""
        last: Document | None = None
        with self._ingestion.changes.watching(document_id) as changed:
            while last is None or not last.finished:
                changed.clear()
                document = await self.get_document(tenant, document_id)
                if document != last:
                    last = document
                    yield document
                if not document.finished:
                    await changed.wait()

    # Answers

    async def search(
        self,
        tenant: str,
        kb: str,
        query: str,
        top_k: int | None = None,
        document_ids: Sequence[str] | None = None,
    ) -> list[Evidence]:
        """The best passages, best first; fewer than `top_k` where there are no more.

        Raises:
            QueryError: for an empty or too long query, a `top_k` out of range.
            EmptyKnowledgeBase: when no document is searchable.
            EmbedderUnavailable: rather than an answer of worse quality that looks like any other.
        """
        found = await self.get_kb(tenant, kb)
        return await self._searcher.search(found, query, top_k, document_ids)

    async def cite(self, tenant: str, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        """For each sentence of the answer the quote that supports it, where one does; in the answer's order."""
        return await self._citer.cite(tenant, answer, evidence)

    async def render_page(
        self, tenant: str, document_id: str, page: int, boxes: Sequence[Box] = (), width: int = 1000
    ) -> bytes:
        """The page (1-based) as PNG with the boxes marked. Raises `NotFound`, `DocumentError` and `Busy`."""
        async with self._database.reading() as session:
            row = await documents.get(session, tenant, document_id)
        path = self._blobs.path(tenant, row.file_id)
        return await self._images.get(PageImage(path, page, tuple(boxes), width, row.password))
