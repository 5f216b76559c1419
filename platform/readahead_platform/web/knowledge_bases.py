"""The list of knowledge bases: choose, create, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from nicegui import ui

from readahead_platform.web.elements import block, confirmed, icon_button, text
from readahead_platform.web.permission import may_change
from readahead_platform.web.visitor import Visitor
from readahead_platform.web.wording import loss
from readahead_retrieval.errors import NotFound, RetrievalError
from readahead_retrieval.types import KnowledgeBase


class KnowledgeBases:
    """Rows to choose from, one of them current."""

    def __init__(self, visitor: Visitor, choose: Callable[[KnowledgeBase | None], Awaitable[None]]) -> None:
        self._visitor = visitor
        self._choose = choose
        self._current = ""
        with block("ra-section"):
            text("Knowledge bases", "ra-section__title", "h2")
            icon_button("add", "New knowledge base", self._open_form)
        self._list = block("ra-kbs", "ul").props('aria-label="Knowledge bases"')
        with block("ra-kb-form") as self._form:
            self._name = ui.input("Name").classes("ra-field ra-field--small").props("outlined dense maxlength=64")
            self._name.on("keydown.enter", self._create).on("keydown.esc", self._close_form)
            ui.button("Create", on_click=self._create, color=None).props("unelevated dense no-caps").classes(
                "ra-button ra-button--main"
            )
            self._problem = ui.label().classes("ra-error").props('role="alert"')
        self._close_form()

    async def select(self, name_or_id: str) -> None:
        """Makes one current, or the first where it is unknown; tells the page."""
        kbs = await self._visitor.context.library.list_kbs(self._visitor.tenant)
        chosen = next((kb for kb in kbs if name_or_id in {kb.id, kb.name}), kbs[0] if kbs else None)
        self._current = chosen.id if chosen else ""
        if not kbs:
            self._open_form()
        self._draw(kbs)
        await self._choose(chosen)

    async def refresh(self) -> None:
        """Brings names and counts up to date."""
        self._draw(await self._visitor.context.library.list_kbs(self._visitor.tenant))

    def _draw(self, kbs: list[KnowledgeBase]) -> None:
        if self._list.is_deleted:
            return
        self._list.clear()
        with self._list:
            for kb in kbs:
                self._row(kb)

    def _row(self, kb: KnowledgeBase) -> None:
        current = kb.id == self._current
        with block("ra-kb ra-kb--current" if current else "ra-kb", "li"):
            pick = block("ra-kb__pick", "button").props('type="button"').on("click", lambda: self.select(kb.id))
            if current:
                pick.props('aria-current="true"')
            with pick:
                ui.icon("folder_open" if current else "folder").classes("ra-kb__icon")
                text(kb.name, "ra-kb__name", "span")
                text(
                    f"{kb.searchable}" if kb.searchable == kb.documents else f"{kb.searchable}/{kb.documents}",
                    "ra-kb__count",
                    "span",
                )
            icon_button("delete_outline", "Delete this knowledge base", lambda: self._delete(kb), "ra-quiet")

    def _open_form(self) -> None:
        self._form.visible = True
        self._name.run_method("focus")

    def _close_form(self) -> None:
        self._form.visible = self._problem.visible = False
        self._name.value = ""

    async def _create(self) -> None:
        if not await may_change(self._visitor):
            return
        try:
            made = await self._visitor.context.library.create_kb(self._visitor.tenant, (self._name.value or "").strip())
        except RetrievalError as error:
            self._problem.text, self._problem.visible = error.message, True
            return
        self._close_form()
        await self.select(made.id)

    async def _delete(self, kb: KnowledgeBase) -> None:
        if not await may_change(self._visitor):
            return
        if not await confirmed(f"Delete the knowledge base {kb.name}?", loss(kb), "Delete"):
            return
        with suppress(NotFound):  # somebody else was faster
            await self._visitor.context.library.delete_kb(self._visitor.tenant, kb.id)
        await self.select(self._current)
