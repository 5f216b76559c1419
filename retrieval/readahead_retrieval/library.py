"""The library: everything retrieval does, by tenant. What platform and agents call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Self

from readahead_retrieval.batch_desk import Batches
from readahead_retrieval.chunk_desk import Chunks
from readahead_retrieval.citation import Citer
from readahead_retrieval.embedders.prefixed import prepared
from readahead_retrieval.embedding import Embedder
from readahead_retrieval.errors import KnowledgeBaseExpired
from readahead_retrieval.file_desk import Files
from readahead_retrieval.ingest.intake import Intake, NewFile
from readahead_retrieval.ingest.pipeline import read_limits
from readahead_retrieval.ingest.service import Ingestion
from readahead_retrieval.job_desk import Jobs
from readahead_retrieval.nearness import nearness
from readahead_retrieval.passage_desk import Passages
from readahead_retrieval.pdf.images import PageImage, PageImages
from readahead_retrieval.pdf.readers import Readers
from readahead_retrieval.rerank import Reranker, reranker
from readahead_retrieval.search import Candidate, Searcher
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.store import attachments, documents, knowledge_bases
from readahead_retrieval.store.blobs import Blobs
from readahead_retrieval.store.home import Home, HomeLock
from readahead_retrieval.store.migrate import migrate
from readahead_retrieval.store.seal import Seal
from readahead_retrieval.store.session import Database, sqlite_url
from readahead_retrieval.text_desk import Texts
from readahead_retrieval.tokens import PortableCounter
from readahead_retrieval.types import (
    Attachment,
    Attributes,
    Box,
    Citation,
    Document,
    Evidence,
    KnowledgeBase,
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
        seal: Seal,
        embedder: Embedder,
        ingestion: Ingestion,
        reranker: Reranker,
        readers: Readers,
        counter: PortableCounter,
    ) -> None:
        self._readers = readers
        self._images = PageImages(read_limits(settings), readers)
        self._lock = lock
        self._seal = seal
        self._database = database
        self._blobs = blobs
        self._ingestion = ingestion
        self._intake = Intake(database, ingestion, seal)
        self.files = Files(database, blobs, ingestion)
        self.texts = Texts(database)
        self.jobs = Jobs(database, ingestion, self._intake)
        self.batches = Batches(database, ingestion, self._intake)
        self.chunks = Chunks(database, ingestion.changes)
        self.passages = Passages(database)
        self._searcher = Searcher(settings, database, embedder, ingestion, reranker, counter)
        self._citer = Citer(database, embedder)
        self._embedder = embedder

    @classmethod
    async def open(cls, settings: RetrievalSettings, embedder: Embedder, counter: PortableCounter) -> Self:
        """Brings the database up to date, puts interrupted jobs back in the queue and starts the workers.

        Raises:
            LibraryInUse: when another process has opened the same home.
        """
        home, embedder = Home(settings.home.expanduser()), prepared(embedder, counter, settings)
        async with AsyncExitStack() as on_failure:
            lock = await asyncio.to_thread(HomeLock, home)
            on_failure.callback(lock.release)
            url = settings.database_url or sqlite_url(home.database)
            seal = await asyncio.to_thread(Seal, home.key)
            await asyncio.to_thread(migrate, url, seal.close)
            database, blobs = Database(url), Blobs(home.files, settings.max_file_bytes)
            on_failure.push_async_callback(database.close)
            second_look = await reranker(settings.reranker_model)
            readers = await on_failure.enter_async_context(Readers())
            ingestion = Ingestion(settings, home, database, blobs, seal, embedder, counter, readers)
            on_failure.push_async_callback(ingestion.close)
            await ingestion.start()
            on_failure.pop_all()
        return cls(settings, lock, database, blobs, seal, embedder, ingestion, second_look, readers, counter)

    async def close(self) -> None:
        """Stops the workers; what they had not finished is resumed by the next open."""
        await self._ingestion.close()
        await self._readers.close()
        await self._database.close()
        self._lock.release()

    def background_failures(self) -> list[str]:
        """Names of the parts behind the calls that have died: documents would wait for them for ever."""
        return self._ingestion.failures()

    def storage_failure(self) -> str | None:
        """Why nothing can be written just now, as far as the last try tells; None while writes get through."""
        return self._ingestion.storage_failure()

    def on_removal(self, keeper: Callable[[str], None]) -> None:
        """The keeper is told the tenant whenever texts of theirs are deleted, replaced or taken out of answers, so that
        copies of them can be dropped. It is called on the event loop, after the commit, and must not block."""
        self._ingestion.changes.on_removal(keeper)

    # Knowledge bases

    async def create_kb(
        self,
        tenant: str,
        name: str,
        *,
        allow_same_name: bool = False,
        metadata: Mapping[str, str] | None = None,
        expires_after_days: int | None = None,
    ) -> KnowledgeBase:
        """Raises `InvalidName`, and `AlreadyExists` unless others of its name are allowed."""
        async with self._database.writing() as session:
            return await knowledge_bases.create(
                session,
                tenant,
                name,
                allow_same_name=allow_same_name,
                metadata=metadata or {},
                expires_after_days=expires_after_days,
            )

    async def update_kb(self, tenant: str, name_or_id: str, values: Mapping[str, Any]) -> KnowledgeBase:
        """Sets those of `name`, `metadata` and `expires_after_days` that are given. Raises `InvalidName`."""
        async with self._database.writing() as session:
            kb = await knowledge_bases.get(session, tenant, name_or_id)
            await knowledge_bases.change(session, kb.id, values)
            await knowledge_bases.touch(session, kb.id)
            return await knowledge_bases.get(session, tenant, kb.id)

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
            held = await documents.rows_of(session, kb.id)
            await documents.remove(session, tenant, held)
            await knowledge_bases.remove(session, kb.id)
        await self._ingestion.kb_removed(tenant, kb.id, [row.id for row in held])

    # Documents

    async def add_document(self, tenant: str, kb: str, file_id: str, password: str | None = None) -> Document:
        """As `attach`; returns the document."""
        return (await self.attach(tenant, kb, NewFile(file_id, password))).document

    async def attach(self, tenant: str, kb: str, new: NewFile) -> Attachment:
        """Queues a file to be read; returns at once.

        The same bytes in the same knowledge base are the same document, which is returned as it stands; one that
        failed is tried again where that may help: the failure is retryable, or a password is given.
        """
        return await self._intake.add(tenant, kb, new)

    async def attachments(self, tenant: str, kb: str) -> list[Attachment]:
        """Its files, oldest first."""
        async with self._database.reading() as session:
            return await attachments.list_all(session, (await knowledge_bases.get(session, tenant, kb)).id)

    async def attachment(self, tenant: str, kb: str, file_id: str) -> Attachment:
        async with self._database.reading() as session:
            return await attachments.get(session, (await knowledge_bases.get(session, tenant, kb)).id, file_id)

    async def set_attributes(self, tenant: str, kb: str, file_id: str, attributes: Attributes) -> Attachment:
        async with self._database.writing() as session:
            kb_id = (await knowledge_bases.get(session, tenant, kb)).id
            await attachments.set_attributes(session, kb_id, file_id, attributes)
            return await attachments.get(session, kb_id, file_id)

    async def detach(self, tenant: str, kb: str, file_id: str) -> None:
        """Takes a file out of a knowledge base; with the last of its bytes goes the document. The file stays."""
        async with self._database.writing() as session:
            attachment = await attachments.get(session, (await knowledge_bases.get(session, tenant, kb)).id, file_id)
            gone = await attachments.detach(session, tenant, [attachment])
        for row in gone:
            await self._ingestion.removed(tenant, row.kb_id, row.id)

    async def list_documents(self, tenant: str, kb: str) -> list[Document]:
        """Oldest first."""
        async with self._database.reading() as session:
            found = await knowledge_bases.get(session, tenant, kb)
            return await documents.list_all(session, found.id)

    async def get_document(self, tenant: str, document_id: str) -> Document:
        async with self._database.reading() as session:
            return documents.document_of(await documents.get(session, tenant, document_id))

    async def existing(self, tenant: str, document_ids: Sequence[str]) -> set[str]:
        """Those of the ids that are documents; of what old answers cite, the others were deleted."""
        async with self._database.reading() as session:
            return await documents.existing(session, tenant, document_ids)

    async def matching(self, tenant: str, kb: str, matches: Callable[[Attributes], bool]) -> list[str]:
        """Ids of the documents one of whose files bears attributes that match."""
        async with self._database.reading() as session:
            kb_id = (await knowledge_bases.get(session, tenant, kb)).id
            held = await attachments.attributes_of(session, kb_id)
        return list(dict.fromkeys(document_id for document_id, attributes in held if matches(attributes)))

    async def remove_document(self, tenant: str, document_id: str) -> None:
        """It answers no more from this moment on; the index is purged of it later. The file stays."""
        async with self._database.writing() as session:
            row = await documents.get(session, tenant, document_id)
            await documents.remove(session, tenant, [row])
        await self._ingestion.removed(tenant, row.kb_id, document_id)

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
        found = await self._used(tenant, kb)
        return await self._searcher.search(found, query, top_k, document_ids)

    async def explain(
        self,
        tenant: str,
        kb: str,
        query: str,
        top_k: int | None = None,
        document_ids: Sequence[str] | None = None,
        per_document: int | None = None,
    ) -> list[Candidate]:
        """Every passage that such a search considers, in its order, with what each engine says of it.

        Raises the same as `search`.
        """
        found = await self._used(tenant, kb)
        return await self._searcher.explain(found, query, top_k, document_ids, per_document)

    async def _used(self, tenant: str, name_or_id: str) -> KnowledgeBase:
        kb = await self.get_kb(tenant, name_or_id)
        if kb.expires_at is None:
            return kb
        if kb.expired:
            raise KnowledgeBaseExpired(
                f"The knowledge base {kb.name!r} expired {kb.expires_after_days} days after it was last used: "
                "set its expires_after anew to use it again."
            )
        async with self._database.writing() as session:
            await knowledge_bases.touch(session, kb.id)
        return kb

    async def cite(self, tenant: str, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        """For each sentence of the answer the quote that supports it, where one does; in the answer's order."""
        return await self._citer.cite(tenant, answer, evidence)

    async def nearness(self, question: str, texts: Sequence[str]) -> list[float]:
        """The cosine of each short text with the question; zeros where the embedding service fails."""
        return await nearness(self._embedder, question, texts)

    async def render_page(
        self, tenant: str, document_id: str, page: int, boxes: Sequence[Box] = (), width: int = 1000
    ) -> bytes:
        """The page (1-based) as PNG with the boxes marked. Raises `NotFound`, `DocumentError` and `Busy`."""
        async with self._database.reading() as session:
            row = await documents.get(session, tenant, document_id)
        path = self._blobs.path(tenant, row.file_id)
        password = None if row.sealed_password is None else self._seal.open(row.sealed_password)
        return await self._images.get(PageImage(path, page, tuple(boxes), width, password))
