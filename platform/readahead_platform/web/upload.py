"""Adding PDFs: a button, or a drop anywhere on the page. Files go up one by one, each with its progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import events, ui

from readahead_platform.web.elements import block, text, toast
from readahead_platform.web.permission import may_change
from readahead_platform.web.visitor import Visitor
from readahead_retrieval.errors import RetrievalError
from readahead_retrieval.types import StoredFile

_PICK = "() => getElement({id}).$refs.qRef.pickFiles()"


class Upload:
    """Stores what is uploaded and hands each stored file on."""

    def __init__(self, visitor: Visitor, add: Callable[[StoredFile], Awaitable[None]]) -> None:
        self._visitor = visitor
        self._add = add
        self._most = visitor.context.settings.retrieval.max_file_bytes
        self._queue = ui.upload(
            multiple=True, auto_upload=True, max_file_size=self._most, on_upload=self._store, on_rejected=self._refuse
        )
        self._queue.classes("ra-upload").props('accept=".pdf,application/pdf" flat hide-upload-btn')
        self._queue.props["max-concurrent"] = 2
        drop = block("ra-drop", "button").props('type="button"').on("click", js_handler=_PICK.format(id=self._queue.id))
        drop.props["data-uploader"] = self._queue.id
        with drop:
            ui.icon("upload_file").classes("ra-drop__icon")
            text("Add PDFs", "ra-drop__title", "span")
            text("or drop them anywhere", "ra-drop__hint", "span")
        self._drop = drop

    def show(self, visible: bool) -> None:
        self._drop.visible = self._queue.visible = visible

    async def _store(self, event: events.UploadEventArguments) -> None:
        if not await may_change(self._visitor):
            self._queue.run_method("removeUploadedFiles")
            return
        library, file = self._visitor.context.library, event.file
        try:
            stored = await library.files.save(self._visitor.tenant, file.name, file.iterate())
        except RetrievalError as error:
            toast(f"{file.name}: {error.message}", bad=True)
            return
        finally:
            self._queue.run_method("removeUploadedFiles")
        await self._add(stored)

    def _refuse(self) -> None:
        toast(f"Only PDF files of up to {self._most >> 20} MB can be added.", bad=True)
