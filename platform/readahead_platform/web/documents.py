"""The documents of a knowledge base, each with its state as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from nicegui import background_tasks, ui

from readahead_platform.web.document_row import DocumentRow
from readahead_platform.web.elements import block, confirmed, text, toast
from readahead_platform.web.visitor import Visitor
from readahead_retrieval.errors import NotFound, RetrievalError
from readahead_retrieval.types import Document

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
                row = self._rows[document.id] = DocumentRow(document, self.remove, self.again)
        else:
            row.show(document)
        if not document.finished and document.id not in self._watches:
            watch = background_tasks.create(self._watch(document.id), name="web-watch")
            self._watches[document.id] = watch
            watch.add_done_callback(lambda _: self._watches.pop(document.id, None))

    async def _watch(self, document_id: str) -> None:
        with suppress(NotFound):  # removed while it was read
            async for document in self._visitor.context.library.watch(self._visitor.tenant, document_id):
                if document_id in self._rows:
                    self._rows[document_id].show(document)
        await self._on_change()

    def _end_watches(self) -> None:
        for watch in self._watches.values():
            watch.cancel()

    async def add(self, file_id: str, password: str | None = None) -> None:
        """Puts a stored file into the knowledge base shown."""
        library, tenant = self._visitor.context.library, self._visitor.tenant
        try:
            document = await library.add_document(tenant, self._kb_id, file_id, password)
        except RetrievalError as error:
            toast(error.message, bad=True)
            return
        if document.id in self._rows and document.finished:
            toast(f"{document.name} is here already.")
        await self.look()
        await self._on_change()

    async def again(self, document: Document, password: str | None) -> None:
        """Reads a failed document once more, with a password where one was asked for."""
        await self._visitor.context.library.remove_document(self._visitor.tenant, document.id)
        await self.add(document.file_id, password)

    async def remove(self, document: Document) -> None:
        """Deletes a document after asking."""
        body = "It will no longer be searched or cited. To have it back, add the file again."
        if await confirmed(f"Delete {document.name}?", body, "Delete"):
            with suppress(NotFound):  # somebody else was faster
                await self._visitor.context.library.remove_document(self._visitor.tenant, document.id)
            await self._visitor.context.forget_deleted(self._visitor.tenant)
            await self.look()
            await self._on_change()
