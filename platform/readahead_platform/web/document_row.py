"""One document in the list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from readahead_platform.web.elements import block, icon_button
from readahead_platform.web.wording import document_line, progress, unread_line
from readahead_retrieval.types import Document, DocumentState

_ICONS = {DocumentState.SEARCHABLE: "description", DocumentState.FAILED: "error_outline"}


class DocumentRow:
    """Name, state, a bar while it is read, and what can be done when it failed, was stopped or is outdated."""

    def __init__(
        self,
        document: Document,
        remove: Callable[[Document], Awaitable[None]],
        again: Callable[[Document, str | None], Awaitable[None]],
        stop: Callable[[Document], Awaitable[None]],
        anew: Callable[[Document], Awaitable[None]],
    ) -> None:
        self._document = document
        self._again = again
        with block("ra-document", "li") as self._root:
            self._icon = ui.icon("description").classes("ra-document__icon")
            with block("ra-document__body"):
                self._name = ui.label(document.name).classes("ra-document__name")
                self._name.props["title"] = document.name
                self._line = ui.label().classes("ra-document__line").props('role="status"')
                self._unread = ui.label().classes("ra-document__unread")
                self._notes = ui.label().classes("ra-document__unread")
                self._outdated = ui.label("Outdated: read by an older version.").classes("ra-document__unread")
                with block("ra-bar") as self._bar:
                    self._fill = block("ra-bar__fill")
                self._build_password()
                self._retry = ui.button("Try again", on_click=lambda: again(self._document, None), color=None)
                self._retry.props("flat dense no-caps").classes("ra-link")
                self._anew = ui.button("Read anew", on_click=lambda: anew(self._document), color=None)
                self._anew.props("flat dense no-caps").classes("ra-link")
            name = _quotable(document.name)
            self._stop = icon_button("stop_circle", f"Stop reading {name}", lambda: stop(self._document), "ra-quiet")
            icon_button("delete_outline", f"Delete {name}", lambda: remove(self._document), "ra-quiet")
        self.show(document)

    def _build_password(self) -> None:
        with block("ra-document__lock") as self._lock:
            self._password = ui.input("Password", password=True).classes("ra-field ra-field--small")
            self._password.props('outlined dense autocomplete="off"').on("keydown.enter", self._unlock)
            ui.button("Unlock", on_click=self._unlock, color=None).props("unelevated dense no-caps").classes(
                "ra-button ra-button--main"
            )

    def show(self, document: Document) -> None:
        """Brings the row up to the document."""
        self._document = document
        failed = document.state is DocumentState.FAILED
        self._icon.name = _ICONS.get(document.state, "hourglass_top")
        self._root.classes(
            add=f"ra-document--{document.state}", remove=" ".join(f"ra-document--{s}" for s in _others(document))
        )
        self._line.text = document_line(document)
        self._unread.text = unread_line(document)
        self._unread.visible = bool(self._unread.text)
        self._notes.text = " ".join(document.notes)
        self._notes.visible = bool(document.notes)
        self._bar.visible = not document.finished
        self._fill.style(f"width: {progress(document) * 100:.0f}%")
        self._lock.visible = failed and document.error_code == "password_required"
        self._retry.visible = (failed and document.error_retryable) or document.state is DocumentState.CANCELLED
        self._outdated.visible = self._anew.visible = document.outdated
        self._stop.visible = document.cancellable

    def delete(self) -> None:
        self._root.delete()

    async def _unlock(self) -> None:
        if self._password.value:
            await self._again(self._document, self._password.value)


def _others(document: Document) -> list[str]:
    return [state for state in DocumentState if state is not document.state]


def _quotable(name: str) -> str:
    """Fit for an attribute that is written in double quotes."""
    return name.replace('"', "'").replace("\\", "/")
