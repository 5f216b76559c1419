"""Builds, proves and publishes index generations: one build at a time, one writer for each knowledge base."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.embedding import Embedder
from readahead_retrieval.errors import DocumentError, IndexDamaged
from readahead_retrieval.index.generation import Generation
from readahead_retrieval.index.shelf import Shelf
from readahead_retrieval.ingest.changes import Changes
from readahead_retrieval.ingest.endurance import RETRY_S, outlasting
from readahead_retrieval.ingest.failure import failure
from readahead_retrieval.ingest.proof import prove
from readahead_retrieval.owners import Owners
from readahead_retrieval.store import (
    attachments,
    chunks,
    documents,
    generations,
    index_changes,
    jobs,
    knowledge_bases,
    rereads,
)
from readahead_retrieval.store.generations import Published
from readahead_retrieval.store.names import new_id
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import DocumentState
from readahead_retrieval.workshop.building import building
from readahead_retrieval.workshop.workshop import Workshop, surviving

log = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""How long a document that is ready waits for others of its knowledge base that are still on their way."""

BUILD_SHARE = 10
"""While others are on their way, building takes at most one part in so many of the time."""


@dataclass(slots=True)
class _Pending:
    """A knowledge base whose index is to be made anew."""

    since: float
    moved: asyncio.Event = field(default_factory=asyncio.Event)


class Publisher:
    """Makes documents in state `indexing` searchable, and purges removed ones.

    A generation is laid over the one before it where little changed, and made whole otherwise; nothing is embedded
    twice. While documents that answer are still to be embedded by a new model, the generation stays the old one's.
    That many documents come one by one must not make that quadratic: a build waits until the knowledge base's
    queue is empty, or until `PATIENCE_S` and `BUILD_SHARE` times the length of the last build have passed.
    """

    def __init__(
        self,
        database: Database,
        shelf: Shelf,
        embedder: Embedder,
        workshop: Workshop,
        changes: Changes,
        *,
        retry_s: float = RETRY_S,
    ) -> None:
        self._retry_s = retry_s
        self._database = database
        self._shelf = shelf
        self._embedder = embedder
        self._workshop = workshop
        self._changes = changes
        self._pending: dict[str, _Pending] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._building = asyncio.Lock()
        self._last_build_s = 0.0

    def request(self, kb_id: str) -> None:
        """The index no longer is what the database holds. Returns at once."""
        if kb_id not in self._pending:
            self._pending[kb_id] = _Pending(asyncio.get_running_loop().time())
        self.nudge(kb_id)
        if kb_id not in self._tasks:
            self._tasks[kb_id] = asyncio.create_task(self._run(kb_id), name=f"publish {kb_id}")

    def nudge(self, kb_id: str) -> None:
        """A document of the knowledge base left the queue: whoever waits for the last of them looks again."""
        if pending := self._pending.get(kb_id):
            pending.moved.set()

    async def rebuild(self, kb_id: str) -> Generation | None:
        """Makes a damaged generation anew from the database, unless another caller just did."""
        self._shelf.forget(kb_id)
        async with self._building:
            try:
                return await self._shelf.current(kb_id)
            except IndexDamaged as damage:
                log.warning("Rebuilding an index: %s", damage.message)
            await surviving(lambda: self._build(kb_id))
            return await self._shelf.current(kb_id)

    async def withdraw(self, kb_id: str) -> None:
        """Takes a removed knowledge base's folder away, after a build that may be under way."""
        async with self._building:
            self._shelf.forget(kb_id)
            await self._shelf.sweep(kb_id)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def has_died(self) -> bool:
        """Whether an index is to be made that no task is left to make."""
        return any(kb_id not in self._tasks for kb_id in self._pending)

    async def _run(self, kb_id: str) -> None:
        try:
            while pending := self._pending.get(kb_id):
                await outlasting(partial(self._until_due, kb_id, pending), "Waiting for documents", self._retry_s)
                del self._pending[kb_id]  # what is requested from here on is for the next build
                async with self._building:
                    await self._publish(kb_id)
        finally:
            del self._tasks[kb_id]

    async def _until_due(self, kb_id: str, pending: _Pending) -> None:
        loop = asyncio.get_running_loop()
        due = pending.since + max(PATIENCE_S, BUILD_SHARE * self._last_build_s)
        while True:
            pending.moved.clear()
            async with self._database.reading() as session:
                if not await jobs.any_for(session, kb_id):
                    return
                whole = await self._model(session, kb_id) == self._embedder.model_id
            left = due - loop.time()
            if whole and left <= 0:
                return
            try:
                await asyncio.wait_for(pending.moved.wait(), left if whole else None)
            except TimeoutError:
                continue

    async def _publish(self, kb_id: str) -> None:
        begun = asyncio.get_running_loop().time()
        try:
            await surviving(lambda: self._build(kb_id))
        except Exception as error:  # top of a background task: a document must not stay "indexing" for ever
            log.exception("An index could not be published")
            fail = partial(self._fail_waiting, kb_id, failure(error, "The index could not be written"))
            await outlasting(fail, "Writing down why an index could not be published", self._retry_s)
        self._last_build_s = asyncio.get_running_loop().time() - begun

    async def _build(self, kb_id: str) -> None:
        folder = self._shelf.folder(kb_id, new_id("gen_"))
        async with self._database.reading() as session:  # one snapshot: documents and chunks belong together
            model = await self._model(session, kb_id)
            held = await documents.for_index(session, kb_id, model)
            if not held:
                await self._publish_nothing(kb_id)
                return
            dimension = await chunks.dimension(session, kb_id, model)
            wanted = await index_changes.wanted(session, kb_id, model)
            base, added, removed = await self._changed(kb_id, model, wanted)
            async with building(self._workshop, folder, kb_id, model, dimension, base) as index:
                await index.remove(removed)
                async for batch in index_changes.load(session, added):
                    await index.add(batch)
                sha256 = await index.publish()
            generation = await asyncio.to_thread(Generation.open, folder, sha256)
            new = [i for i, state in held.items() if state is DocumentState.INDEXING]
            await prove(session, generation, wanted, new)
        await self._commit(kb_id, generation, sha256, list(held))
        if model != self._embedder.model_id:
            log.warning(
                "%s goes on with the vectors of %s: documents of it have none of the new model yet", kb_id, model
            )

    async def _model(self, session: AsyncSession, kb_id: str) -> str:
        """Whose vectors the next generation holds."""
        return await documents.serving_model(session, kb_id, self._embedder.model_id)

    async def _changed(self, kb_id: str, model: str, wanted: Owners) -> tuple[Generation | None, list[int], list[int]]:
        """The generation to build upon, and the ids of chunks to add to it and to take from it."""
        try:
            base = await self._shelf.current(kb_id)
        except IndexDamaged:
            base = None
        if base is not None:
            added, removed, agree = await asyncio.to_thread(_compared, wanted, base)
            if agree and base.extends_to(kb_id, model, len(added), len(removed)):
                return base, added, removed
        return None, wanted.ids.tolist(), []

    async def _commit(self, kb_id: str, generation: Generation, sha256: str, held: list[str]) -> None:
        """The pointer and the states change together: a crash leaves the old generation or the new one."""
        published = Published(generation.manifest.name, sha256, generation.manifest.chunks)
        async with self._database.writing() as session:
            if not await generations.publish(session, kb_id, published):
                return
            taken = await rereads.take_over(session, held)
            held = [taken.get(document_id, document_id) for document_id in held]
            replaced = await attachments.superseded(session, kb_id, frozenset(held))
            await documents.set_published(session, kb_id, held)
            tenant = await knowledge_bases.tenant(session, kb_id)
            gone = await attachments.detach(session, tenant, replaced)
        self._shelf.put(kb_id, generation)
        await self._shelf.sweep(kb_id)
        for document_id in (*held, *taken, *(row.id for row in gone)):
            self._changes.notify(document_id)
        if gone or taken:
            self._changes.removed(tenant)
        if gone:
            self.request(kb_id)  # their entries are hidden already, and go with the next build

    async def _publish_nothing(self, kb_id: str) -> None:
        async with self._database.writing() as session:
            await generations.withdraw(session, kb_id)
            await documents.set_published(session, kb_id, [])
        self._shelf.forget(kb_id)
        await self._shelf.sweep(kb_id)

    async def _fail_waiting(self, kb_id: str, error: DocumentError) -> None:
        async with self._database.writing() as session:
            held = await documents.for_index(session, kb_id, await self._model(session, kb_id))
            waiting = [i for i, state in held.items() if state is DocumentState.INDEXING]
            for document_id in waiting:
                await documents.fail(session, document_id, error)
        for document_id in waiting:
            self._changes.notify(document_id)
        await self._shelf.sweep(kb_id)


def _compared(wanted: Owners, base: Generation) -> tuple[list[int], list[int], bool]:
    """Ids that an index lacks, those that it holds too much, and whether the others are the same documents' in both."""
    held = base.owners()
    lacking, over = np.setdiff1d(wanted.ids, held.ids), np.setdiff1d(held.ids, wanted.ids)
    return lacking.tolist(), over.tolist(), not wanted.contradicts(held)
