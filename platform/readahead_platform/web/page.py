"""The page of somebody who is signed in."""

from __future__ import annotations

from nicegui import app, events, ui

from readahead_platform.web.chat import Chat
from readahead_platform.web.documents import Documents
from readahead_platform.web.elements import LOGO, block, icon_button, text
from readahead_platform.web.knowledge_bases import KnowledgeBases
from readahead_platform.web.theme_button import ThemeButton
from readahead_platform.web.turns import Tab
from readahead_platform.web.upload import Upload
from readahead_platform.web.viewer import Viewer
from readahead_platform.web.visitor import Visitor, sign_out
from readahead_platform.web.whole_text import WholeText
from readahead_retrieval.types import KnowledgeBase


class Page:
    """Knowledge bases and documents at the left, the chat in the middle, the cited page at the right."""

    def __init__(self, visitor: Visitor, tab: Tab) -> None:
        self._tab = tab
        with block("ra-shell"):
            with block("ra-side", "nav").props('aria-label="Knowledge bases and documents"') as self._side:
                self._build_side(visitor)
            with block("ra-main"):
                with block("ra-top", "header"):
                    icon_button("menu", "Knowledge bases and documents", self._toggle_side, "ra-narrow-only")
                    self._title = ui.label().classes("ra-top__title")
                    icon_button("edit_note", "New conversation", self._start_over)
                viewer_later: list[Viewer] = []
                self._chat = Chat(visitor, tab, lambda source: viewer_later[0].open(source))
            self._viewer = Viewer(visitor)
            viewer_later.append(self._viewer)
        ui.keyboard(self._on_key, ignore=["input", "textarea"])

    def _build_side(self, visitor: Visitor) -> None:
        with block("ra-brand"):
            ui.html(LOGO, sanitize=False)
            text("Readahead", "ra-brand__name", "h1")
            icon_button("close", "Close", self._toggle_side, "ra-narrow-only")
        self._kbs = KnowledgeBases(visitor, self._choose)
        with block("ra-section"):
            text("Documents", "ra-section__title", "h2")
        self._upload = Upload(visitor, lambda file: self._documents.add(file))
        self._documents = Documents(visitor, self._documents_changed)
        self._whole_text = WholeText(visitor)
        with block("ra-side__foot"):
            ThemeButton()
            icon_button("logout", "Sign out", _leave)

    async def open(self) -> None:
        """Fills the page; called once the browser is connected."""
        await self._kbs.select(self._tab.kb_id or "samples")

    async def _choose(self, kb: KnowledgeBase | None) -> None:
        self._kb = kb
        self._tab.kb_id = kb.id if kb else ""
        self._title.text = kb.name if kb else ""
        self._viewer.close()
        self._side.classes(remove="ra-side--open")
        self._upload.show(kb is not None)
        await self._documents.show(self._tab.kb_id)
        await self._whole_text.show(kb)
        await self._chat.show(kb)

    async def _documents_changed(self) -> None:
        await self._kbs.refresh()
        await self._whole_text.look()
        await self._chat.refresh_welcome()

    async def _start_over(self) -> None:
        self._tab.stop()
        self._tab.forget(self._tab.kb_id)
        self._viewer.close()
        await self._chat.show(self._kb)

    def _toggle_side(self) -> None:
        self._side.classes(toggle="ra-side--open")

    def _on_key(self, event: events.KeyEventArguments) -> None:
        if not event.action.keydown:
            return
        if event.key.escape:
            self._viewer.close()
        elif event.key.arrow_left or event.key.arrow_right:
            self._viewer.turn(-1 if event.key.arrow_left else 1)


def tab_of_client() -> Tab:
    """The state of the browser tab; it outlives a reload."""
    tab = app.storage.tab.setdefault("tab", Tab())
    assert isinstance(tab, Tab)
    return tab


def _leave() -> None:
    sign_out()
    app.storage.tab.clear()
    ui.navigate.to("/")
