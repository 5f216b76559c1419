"""One document's way: extract, chunk, embed; each stage commits as it goes and begins where the last run stopped."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Sequence

import numpy as np

from readahead_retrieval.embedding import Embedder, Vectors
from readahead_retrieval.errors import DocumentError, EmbedderRefused, EmbedderUnavailable
from readahead_retrieval.ingest.changes import Changes
from readahead_retrieval.ingest.cut import Cut
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.notes import recognised_note
from readahead_retrieval.pdf.quality import document_error
from readahead_retrieval.pdf.reader import PdfReader, open_pdf
from readahead_retrieval.pdf.readers import Readers
from readahead_retrieval.pdf.recognise import Recognition, find_recognition
from readahead_retrieval.pdf.version import READER_VERSION
from readahead_retrieval.settings import RetrievalSettings
from readahead_retrieval.store import chunks, documents, jobs, pages
from readahead_retrieval.store.blobs import Blobs
from readahead_retrieval.store.codec import encode_integers
from readahead_retrieval.store.models import DocumentRow
from readahead_retrieval.store.seal import Seal
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Chunk, DocumentState, Page
from readahead_retrieval.workshop.cutting import cutting
from readahead_retrieval.workshop.workshop import Workshop, surviving

log = logging.getLogger(__name__)

PAGE_BATCH = 32
MAX_BACKOFF_S = 30.0


class DocumentGone(Exception):
    """Removed or cancelled while it was worked on: stop, there is nothing left to do."""


class Pipeline:
    """Brings a document to state `indexing`; what is done is read from the data, not from the state."""

    def __init__(
        self,
        settings: RetrievalSettings,
        database: Database,
        blobs: Blobs,
        seal: Seal,
        embedder: Embedder,
        cut: Cut,
        workshop: Workshop,
        readers: Readers,
        changes: Changes,
    ) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs
        self._seal = seal
        self._embedder = embedder
        self._cut = cut
        self._workshop = workshop
        self._readers = readers
        self._changes = changes
        self._limits = read_limits(settings)
        self._recognition: Recognition | None = None
        """Looked for when the first document comes."""

    async def run(self, document_id: str) -> None:
        """Raises `DocumentError` where the document cannot be made searchable, and `DocumentGone`."""
        row, tenant = await self._load(document_id)
        if row.state == DocumentState.CANCELLED:
            raise DocumentGone
        if not await self._is_extracted(row):
            await self._extract(row, tenant)
        if not self._is_cut(row):
            await self._chunk(row)
        await self._embed(row)
        await self._hand_over(document_id)

    async def _load(self, document_id: str) -> tuple[DocumentRow, str]:
        async with self._database.reading() as session:
            found = await documents.with_tenant(session, document_id)
        if found is None:
            raise DocumentGone
        return found

    async def _is_extracted(self, row: DocumentRow) -> bool:
        async with self._database.reading() as session:
            return row.shares_pages or (row.pages > 0 and await pages.count(session, row.id) == row.pages)

    def _is_cut(self, row: DocumentRow) -> bool:
        """Whether its chunks are those that its text would become now."""
        if row.cut is None:  # older than that it is kept
            return row.chunks > 0 and row.embedding_model in {None, self._embedder.model_id}
        return row.chunks > 0 and row.cut == self._cut.mark(row.chunk_tokens, row.chunk_overlap_tokens)

    async def _extract(self, row: DocumentRow, tenant: str) -> None:
        async with self._database.reading() as session:
            done = await pages.count(session, row.id)
        # What an older reader began is its own to the end: its pages tell of it.
        begun = {"reader": READER_VERSION} if done == 0 else {}
        await self._change(row.id, state=DocumentState.EXTRACTING.value, **begun)
        password = None if row.sealed_password is None else self._seal.open(row.sealed_password)
        recognition = await self._find_recognition()
        path = self._blobs.path(tenant, row.file_id)
        async with open_pdf(
            path, self._limits, password, recognition=recognition, first_page=done + 1, readers=self._readers
        ) as pdf:
            notes = list(pdf.notes)
            await self._change(row.id, pages=pdf.page_count, notes=notes)
            await self._store_pages(row.id, pdf)
        async with self._database.reading() as session:
            error = document_error(await pages.qualities(session, row.id), recognition.engine.missing)
            recognised = await pages.recognised(session, row.id)
        if recognised:
            await self._change(row.id, notes=[*notes, recognised_note(recognised)])
        if error is not None:
            raise error

    async def _find_recognition(self) -> Recognition:
        if self._recognition is None:
            self._recognition = await asyncio.to_thread(
                find_recognition,
                self._settings.ocr_languages.split("+"),
                enabled=self._settings.ocr == "auto",
                max_pages=self._settings.ocr_max_pages,
                page_timeout_s=self._settings.ocr_page_timeout_s,
            )
        return self._recognition

    async def _store_pages(self, document_id: str, pdf: PdfReader) -> None:
        batch: list[Page] = []
        async for page in pdf.pages():
            batch.append(page)
            if len(batch) == PAGE_BATCH or page.number == pdf.page_count:
                await self._commit_pages(document_id, batch)
                batch = []

    async def _commit_pages(self, document_id: str, batch: Sequence[Page]) -> None:
        rows = await asyncio.to_thread(pages.encode, document_id, batch)
        async with self._database.writing() as session:
            if not await documents.change(session, document_id, pages_done=batch[-1].number):
                raise DocumentGone
            await pages.add(session, rows)
            unread = await pages.unread(session, document_id)
            await documents.change(session, document_id, pages_unread=encode_integers(unread))
            await jobs.progressed(session, document_id)
        self._changes.notify(document_id)

    async def _chunk(self, row: DocumentRow) -> None:
        document_id = row.id
        await self._change(document_id, state=DocumentState.CHUNKING.value, chunks=0, chunks_done=0)
        made = await surviving(lambda: self._cut_up(row))
        if not made:
            raise DocumentError("no_text", "The document holds no text that could be searched.")
        async with self._database.writing() as session:
            cut = self._cut.mark(row.chunk_tokens, row.chunk_overlap_tokens)
            if not await documents.change(session, document_id, chunks=made, chunks_done=0, cut=cut):
                raise DocumentGone
            await jobs.progressed(session, document_id)
        self._changes.notify(document_id)

    async def _cut_up(self, row: DocumentRow) -> int:
        """Returns how many chunks there are. They count once all are there: a crash begins anew."""
        async with self._database.writing() as session:
            await chunks.clear(session, row.id)
        made = 0
        max_tokens, overlap_tokens = self._cut.sizes(row.chunk_tokens, row.chunk_overlap_tokens)
        async with cutting(self._workshop, max_tokens=max_tokens, overlap_tokens=overlap_tokens) as document:
            async for read in self._slices(row.rereads if row.shares_pages and row.rereads else row.id):
                made += await self._commit_chunks(row.id, await document.add(read), made)
            return made + await self._commit_chunks(row.id, await document.finish(), made)

    async def _slices(self, document_id: str) -> AsyncIterator[Sequence[Page]]:
        first = 1
        while True:
            async with self._database.reading() as session:
                read = await pages.load_text(session, document_id, first, first + PAGE_BATCH - 1)
            if not read:
                return
            yield read
            first += PAGE_BATCH

    async def _commit_chunks(self, document_id: str, made: Sequence[Chunk], first: int) -> int:
        if made:
            async with self._database.writing() as session:
                if not await documents.change(session, document_id, chunks_done=0):
                    raise DocumentGone
                await chunks.add(session, document_id, made, first)
        return len(made)

    async def _embed(self, row: DocumentRow) -> None:
        """While a batch is written down, the next one is computed already."""
        await self._begin_embedding(row.id)
        batch = await self._unembedded(row.id, skipped=0)
        computing = self._computing(row, batch)
        try:
            while batch:
                following = await self._unembedded(row.id, skipped=len(batch))
                vectors = await computing
                computing = self._computing(row, following)
                await self._commit_vectors(row.id, [chunk_id for chunk_id, _ in batch], vectors)
                batch = following
        finally:
            computing.cancel()
            await asyncio.gather(computing, return_exceptions=True)

    def _computing(self, row: DocumentRow, batch: Sequence[tuple[int, str]]) -> asyncio.Task[Vectors]:
        texts = [text for _, text in batch]
        return asyncio.create_task(self._vectors(texts, for_ever=row.rereads is not None))

    async def _unembedded(self, document_id: str, skipped: int) -> list[tuple[int, str]]:
        """The next batch, behind so many chunks that are under way."""
        async with self._database.reading() as session:
            found = await chunks.without_vector(session, document_id, skipped + self._settings.embed_batch)
        return found[skipped:]

    async def _commit_vectors(self, document_id: str, chunk_ids: Sequence[int], vectors: Vectors) -> None:
        async with self._database.writing() as session:
            if not await documents.add_embedded(session, document_id, len(chunk_ids)):
                raise DocumentGone
            await chunks.set_vectors(session, chunk_ids, vectors)
            await jobs.progressed(session, document_id)
        self._changes.notify(document_id)

    async def _begin_embedding(self, document_id: str) -> None:
        """Vectors of another model are of no use beside this one's."""
        model = self._embedder.model_id
        async with self._database.writing() as session:
            if await documents.embedding_model(session, document_id) != model:
                await chunks.clear_vectors(session, document_id)
            done = await chunks.count_embedded(session, document_id)
            values = {"state": DocumentState.EMBEDDING.value, "embedding_model": model, "chunks_done": done}
            if not await documents.change(session, document_id, **values):
                raise DocumentGone
        self._changes.notify(document_id)

    async def _vectors(self, texts: Sequence[str], *, for_ever: bool) -> Vectors:
        """Waits for an embedding service that is away, longer each time.

        Args:
            for_ever: For what nobody waits for: the document answers meanwhile as it was.
        """
        if not texts:
            return np.empty((0, self._embedder.dimension), dtype=np.float32)
        for attempt in itertools.count(1):
            try:
                return await self._embedder.embed(texts, "passage")
            except EmbedderRefused as error:
                message = f"The text could not be embedded: {error.message}"
                raise DocumentError("internal", message, retryable=True) from error
            except EmbedderUnavailable as error:
                if attempt >= self._settings.embed_attempts and not for_ever:
                    message = f"The embedding service did not answer {attempt} times: add the file again later."
                    raise DocumentError("embedder_unavailable", message, retryable=True) from error
                log.warning("Embedding failed, attempt %d: %s", attempt, error.message)
                await asyncio.sleep(min(self._settings.embed_backoff_s * 2 ** min(attempt - 1, 30), MAX_BACKOFF_S))
        raise AssertionError("unreachable: it counts for ever")

    async def _hand_over(self, document_id: str) -> None:
        """The job ends with the change of state: from here on the state says what is to be done."""
        async with self._database.writing() as session:
            if not await documents.change(session, document_id, state=DocumentState.INDEXING.value):
                raise DocumentGone
            await jobs.finish(session, document_id)
        self._changes.notify(document_id)

    async def _change(self, document_id: str, **values: object) -> None:
        async with self._database.writing() as session:
            if not await documents.change(session, document_id, **values):
                raise DocumentGone
        self._changes.notify(document_id)


def read_limits(settings: RetrievalSettings) -> ReadLimits:
    return ReadLimits(timeout_s=settings.read_timeout_s, memory_bytes=settings.read_memory_bytes)
