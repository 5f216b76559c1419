"""The page behind a citation: its image with the quote highlighted, beside the chat."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from readahead_platform.web.elements import block, icon_button, text
from readahead_platform.web.sources import Source
from readahead_platform.web.visitor import Visitor
from readahead_retrieval.errors import NotFound
from readahead_retrieval.types import Box

_ZOOMS = (1.0, 1.35, 1.8, 2.4)
_IMAGE_WIDTH = 1400
"""Pixels asked of the renderer: enough for the second zoom on a dense screen."""


class Viewer:
    """A panel at the right, closed at first. On a narrow screen it covers the chat."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._source: Source | None = None
        self._page = self._pages = 1
        self._zoom = 0
        self.panel = block("ra-viewer", "aside").props('aria-label="Cited page"')
        self.panel.visible = False
        with self.panel:
            self._build_header()
            with block("ra-viewer__quote", "blockquote") as self._quote:
                self._quote_text = ui.label()
            with block("ra-viewer__scroll").props('tabindex="0" role="region" aria-label="Page image"'):
                self._image = ui.element("img").classes("ra-viewer__image")
            self._missing = text("This document was deleted; only the quote is left.", "ra-viewer__missing", "p")

    def _build_header(self) -> None:
        with block("ra-viewer__header", "header"):
            with block("ra-viewer__titles"):
                self._title = ui.label().classes("ra-viewer__title")
                self._place = ui.label().classes("ra-viewer__place").props('aria-live="polite"')
            self._previous = icon_button("chevron_left", "Previous page", lambda: self.turn(-1))
            self._next = icon_button("chevron_right", "Next page", lambda: self.turn(1))
            icon_button("remove", "Smaller", lambda: self.zoom(-1), "ra-wide-only")
            icon_button("add", "Larger", lambda: self.zoom(1), "ra-wide-only")
            icon_button("close", "Close the page (Esc)", self.close)

    async def open(self, source: Source) -> None:
        """Shows a source's page."""
        self._source, self._page, self._zoom = source, source.page, 0
        self.panel.visible = True
        self._quote_text.text = " … ".join(source.quotes)
        self._title.text = source.document
        self._title.props["title"] = source.document
        try:
            document = await self._visitor.context.library.get_document(self._visitor.tenant, source.document_id)
        except NotFound:
            self._show_missing()
            return
        self._pages = document.pages
        self._show()

    def turn(self, by: int) -> None:
        """Goes to a neighbouring page; stays at the ends."""
        if self._source is not None and self.panel.visible and 1 <= self._page + by <= self._pages:
            self._page += by
            self._show()

    def zoom(self, by: int) -> None:
        self._zoom = min(max(self._zoom + by, 0), len(_ZOOMS) - 1)
        self._image.style(f"width: {_ZOOMS[self._zoom] * 100:.0f}%")

    def close(self) -> None:
        self._source = None
        self.panel.visible = False

    def _show(self) -> None:
        source = self._source
        assert source is not None
        cited = self._page == source.page
        self._missing.visible, self._image.visible = False, True
        self._quote.visible = cited
        self._place.text = self._place_text(source, cited)
        self._previous.set_enabled(self._page > 1)
        self._next.set_enabled(self._page < self._pages)
        self._image.props["src"] = self._url(source, source.boxes if cited else ())
        self._image.props["alt"] = f"Page {self._page} of {source.document}" + (", quote highlighted" if cited else "")
        self.zoom(0)

    def _place_text(self, source: Source, cited: bool) -> str:
        label = f"p. {source.page_label} · " if cited and source.page_label != str(source.page) else ""
        return f"{label}page {self._page} of {self._pages}"

    def _url(self, source: Source, boxes: Sequence[Box]) -> str:
        links = self._visitor.context.page_links
        return f"{links.url(self._visitor.tenant, source.document_id, self._page, boxes)}&width={_IMAGE_WIDTH}"

    def _show_missing(self) -> None:
        self._place.text = "deleted"
        self._quote.visible = self._missing.visible = True
        self._image.visible = False
        self._previous.set_enabled(False)
        self._next.set_enabled(False)
