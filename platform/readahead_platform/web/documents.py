"""The documents of a knowledge base, each with its state as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from nicegui import background_tasks, ui

from readahead_platform.web.document_row import DocumentRow
from readahead_platform.web.elements import block, confirmed, text, toast
from readahead_platform.web.permission import may_change
from readahead_platform.web.visitor import Visitor
from readahead_platform.web.wording import document_line
from readahead_retrieval import job_desk
from readahead_retrieval.errors import NotFound, RetrievalError
from readahead_retrieval.ingest.intake import NewFile
from readahead_retrieval.types import Document, DocumentState, Job, StoredFile

_LOOK_S = 5.0
"""Seconds between looks for documents that another tab or the API added."""


class Documents:
    """A list of rows. Each unfinished document is watched until it is finished."""

    def __init__(self, visitor: Visitor, on_change: Callable[[], Awaitable[None]]) -> None:
        self._visitor = visitor
        self._on_change = on_change
        self._kb_id = ""
        self._rows: dict[str, DocumentRow] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._empty = text("No documents yet.", "ra-empty")
        self._list = block("ra-documents", "ul").props('aria-label="Documents"')
        ui.timer(_LOOK_S, self.look)
        ui.context.client.on_delete(self._end_watches)

    async def show(self, kb_id: str) -> None:
        """Changes to another knowledge base ("" shows none)."""
        self._kb_id = kb_id
        self._end_watches()
        self._rows.clear()
        self._list.clear()
        await self.look()

    async def look(self) -> None:
        """Brings the rows up to what the library has now."""
        kb_id, found = self._kb_id, list[Document]()
        if kb_id:
            with suppress(NotFound):  # deleted elsewhere: its documents are gone too
                found = await self._visitor.context.library.list_documents(self._visitor.tenant, kb_id)
        if kb_id != self._kb_id or self._list.is_deleted:
            return
        for gone in self._rows.keys() - {document.id for document in found}:
            self._rows.pop(gone).delete()
        for document in found:
            self._put(document)
        self._empty.visible = not found

    def _put(self, document: Document) -> None:
        row = self._rows.get(document.id)
        if row is None:
            with self._list:
                row = self._rows[document.id] = DocumentRow(document, self.remove, self.again, self.stop, self.anew)
        elif document.id not in self._watches:
            row.show(document)
        if not document.finished and document.id not in self._watches:
            self._watch(document.id, self._visitor.context.library.watch(self._visitor.tenant, document.id))

    def _watch(self, document_id: str, states: AsyncIterator[Document]) -> None:
        watch = background_tasks.create(self._show_each(document_id, states), name="web-watch")
        self._watches[document_id] = watch
        watch.add_done_callback(lambda _: self._watches.pop(document_id, None))

    async def _show_each(self, document_id: str, states: AsyncIterator[Document]) -> None:
        with suppress(NotFound):  # removed while it was read
            async for document in states:
                if document_id in self._rows:
                    self._rows[document_id].show(document)
        await self._on_change()

    def _end_watches(self) -> None:
        for watch in self._watches.values():
            watch.cancel()

    async def add(self, file: StoredFile) -> None:
        """Puts a stored file into the knowledge base shown; asks first where it may be a new version of another."""
        if not await may_change(self._visitor):
            return
        library, tenant, kb_id = self._visitor.context.library, self._visitor.tenant, self._kb_id
        try:
            replaces = await self._is_to_replace(kb_id, file)
            document = (await library.attach(tenant, kb_id, NewFile(file.id, replaces=replaces))).document
        except RetrievalError as error:
            toast(error.message, bad=True)
            return
        if document.id in self._rows and document.finished:
            toast(f"{document.name} is here already.")
        await self.look()
        await self._on_change()

    async def _is_to_replace(self, kb_id: str, file: StoredFile) -> bool:
        library, tenant = self._visitor.context.library, self._visitor.tenant
        named = [one for one in await library.attachments(tenant, kb_id) if one.name == file.name]
        held = [await library.files.get(tenant, one.file_id) for one in named]
        if not held or file.sha256 in {one.sha256 for one in held}:
            return False
        body = "The knowledge base holds another file of this name. It answers until the new one has been read."
        return await confirmed(f"Replace the {file.name} that is there?", body, "Replace", otherwise="Keep both")

    async def again(self, document: Document, password: str | None) -> None:
        """Goes on with a document that failed or was stopped, with a password where one was asked for."""
        if not await may_change(self._visitor):
            return
        job_id = job_desk.id_of(document.id)
        await self._changed(self._visitor.context.library.jobs.retry(self._visitor.tenant, job_id, password))

    async def stop(self, document: Document) -> None:
        """Ends the reading of a document, which stays in the list and can be taken up again."""
        if not await may_change(self._visitor):
            return
        job_id = job_desk.id_of(document.id)
        await self._changed(self._visitor.context.library.jobs.cancel(self._visitor.tenant, job_id))

    async def anew(self, document: Document) -> None:
        """Has a document read anew that an older version read; it answers meanwhile as it was read before."""
        if not await may_change(self._visitor):
            return
        jobs, tenant = self._visitor.context.library.jobs, self._visitor.tenant
        with suppress(NotFound):  # deleted elsewhere: the look shows it
            for job in await jobs.refresh(tenant, self._kb_id, document_id=document.id):
                self._watch(document.id, self._reading(job))
        await self.look()

    async def _reading(self, job: Job) -> AsyncIterator[Document]:
        library, tenant = self._visitor.context.library, self._visitor.tenant
        async for now in library.jobs.watch(tenant, job.id):
            yield now.document
            job = now
        if job.document.state is DocumentState.FAILED and not self._list.is_deleted:
            with self._list:
                toast(f"{job.document.name} stays as it was: {document_line(job.document)}", bad=True)
            yield await library.get_document(tenant, job.document.id)

    async def _changed(self, job: Awaitable[Job]) -> None:
        try:
            await job
        except NotFound:  # deleted elsewhere: the look shows it
            pass
        except RetrievalError as error:
            toast(error.message, bad=True)
        await self.look()
        await self._on_change()

    async def remove(self, document: Document) -> None:
        """Deletes a document after asking."""
        if not await may_change(self._visitor):
            return
        body = "It will no longer be searched or cited. To have it back, add the file again."
        if await confirmed(f"Delete {document.name}?", body, "Delete"):
            with suppress(NotFound):  # somebody else was faster
                await self._visitor.context.library.remove_document(self._visitor.tenant, document.id)
            await self.look()
            await self._on_change()
