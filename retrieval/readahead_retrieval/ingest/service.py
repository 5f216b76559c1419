"""Ingestion as one thing: workers, publisher, and what a start finds unfinished."""

from __future__ import annotations

from collections.abc import Sequence

from readahead_retrieval.embedding import Embedder
from readahead_retrieval.errors import IndexDamaged
from readahead_retrieval.index.generation import Generation
from readahead_retrieval.index.shelf import Shelf
from readahead_retrieval.ingest.changes import Changes
from readahead_retrieval.ingest.cut import Cut
from readahead_retrieval.ingest.pipeline import Pipeline
from readahead_retrieval.ingest.publisher import Publisher
from readahead_retrieval.ingest.renewal import renew
from readahead_retrieval.ingest.worker import Workers
from readahead_retrieval.pdf.readers import Readers
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.store import generations, jobs
from readahead_retrieval.store.blobs import Blobs
from readahead_retrieval.store.home import Home
from readahead_retrieval.store.probe import WriteProbe
from readahead_retrieval.store.seal import Seal
from readahead_retrieval.store.session import Database
from readahead_retrieval.tokens import PortableCounter
from readahead_retrieval.workshop.workshop import Workshop


class Ingestion:
    """Owns every task that runs behind the library's calls, and the indexes they make."""

    def __init__(
        self,
        settings: RetrievalSettings,
        home: Home,
        database: Database,
        blobs: Blobs,
        seal: Seal,
        embedder: Embedder,
        counter: PortableCounter,
        readers: Readers,
    ) -> None:
        self.changes = Changes()
        self._concurrency = settings.ingest_concurrency
        self._database = database
        self._model = embedder.model_id
        self._cut = Cut(settings, counter, embedder.max_tokens)
        self._shelf = Shelf(home.indexes, database)
        self._probe = WriteProbe(database)
        self._workshop = Workshop(counter.definition())
        self._publisher = Publisher(database, self._shelf, embedder, self._workshop, self.changes)
        pipeline = Pipeline(settings, database, blobs, seal, embedder, self._cut, self._workshop, readers, self.changes)
        self._workers = Workers(database, pipeline, self._publisher, self.changes)

    async def start(self) -> None:
        """Resumes what the last run left: queued and interrupted jobs, indexes that are behind the database."""
        async with self._database.writing() as session:
            await jobs.release_all(session)
            await renew(session, self._model, self._cut)
            stale = await generations.stale(session)
        await self._shelf.sweep()
        for kb_id in stale:
            self._publisher.request(kb_id)
        self._workers.start(self._concurrency)
        self._probe.start()

    async def close(self) -> None:
        await self._probe.close()
        await self._workers.close()
        await self._publisher.close()
        await self._workshop.close()

    def failures(self) -> list[str]:
        """Names of the parts that have died; only a restart brings them back."""
        died = {"ingestion worker": self._workers.has_died(), "index publisher": self._publisher.has_died()}
        return [name for name, is_dead in died.items() if is_dead]

    def storage_failure(self) -> str | None:
        return self._probe.failure()

    async def added(self) -> None:
        """Jobs were queued."""
        await self._workers.wake()

    async def cancelled(self, kb_id: str, document_id: str) -> None:
        """Returns once no worker has its hands on the document any more."""
        await self._workers.interrupt(document_id)
        self.changes.notify(document_id)
        self._publisher.nudge(kb_id)

    async def removed(self, tenant: str, kb_id: str, document_id: str) -> None:
        """A document is gone; it is hidden already, and its index entries go with the next generation."""
        self.changes.removed(tenant)
        await self._workers.interrupt(document_id)
        self.changes.notify(document_id)
        self._publisher.request(kb_id)

    async def kb_removed(self, tenant: str, kb_id: str, document_ids: Sequence[str]) -> None:
        self.changes.removed(tenant)
        for document_id in document_ids:
            await self._workers.interrupt(document_id)
            self.changes.notify(document_id)
        await self._publisher.withdraw(kb_id)

    async def generation(self, kb_id: str) -> Generation | None:
        """The current one, rebuilt first where it is damaged; None while nothing is searchable."""
        try:
            return await self._shelf.current(kb_id)
        except IndexDamaged:
            return await self._publisher.rebuild(kb_id)
