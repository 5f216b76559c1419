"""Whether the model holds the whole text of a knowledge base, and a button that has it read ahead."""

from __future__ import annotations

import json

from nicegui import ui

from readahead_platform.errors import ApiError
from readahead_platform.gateway.llm_client import UpstreamAnswer
from readahead_platform.packs.builder import Keeping
from readahead_platform.packs.pack_size import unless_too_large
from readahead_platform.web.elements import block, toast
from readahead_platform.web.permission import may_change
from readahead_platform.web.visitor import Visitor
from readahead_platform.web.wording import can_be_read_ahead, is_being_read_ahead, whole_text_line
from readahead_retrieval.errors import NotFound
from readahead_retrieval.types import KnowledgeBase

_LOOK_S = 5.0
_LOOK_WHILE_READING_S = 1.0
"""Seconds between looks: it may be read, and let go, at somebody else's wish too."""


class WholeText:
    """One line and one button; hidden for a knowledge base without documents."""

    def __init__(self, visitor: Visitor) -> None:
        self._visitor = visitor
        self._kb: KnowledgeBase | None = None
        with block("ra-whole") as self._root:
            self._line = ui.label().classes("ra-whole__line").props('role="status"')
            with block("ra-bar") as self._bar:
                self._fill = block("ra-bar__fill")
            self._button = ui.button("Read it ahead", on_click=self._read, color=None)
            self._button.props("flat dense no-caps").classes("ra-link")
            with self._button:
                ui.tooltip("The model reads all documents once; answers by “Whole text” start from there").props(
                    "delay=500"
                )
        self._root.visible = False
        self._timer = ui.timer(_LOOK_S, self.look)

    async def show(self, kb: KnowledgeBase | None) -> None:
        """Changes to another knowledge base."""
        self._kb = kb
        self._root.visible = False
        await self.look()

    async def look(self) -> None:
        """Brings the line up to what the LLM server holds now."""
        kb = self._kb
        if kb is None:
            return
        context, tenant = self._visitor.context, self._visitor.tenant
        try:
            found = await context.packs.find(tenant, await context.library.get_kb(tenant, kb.id))
        except (ApiError, NotFound):  # the chat tells that the model is away, the list that the documents are gone
            self._root.visible = False
            return
        if kb is not self._kb or self._root.is_deleted:
            return
        pack = found.shown()
        self._root.visible = bool(found.documents)
        self._line.text = whole_text_line(pack)
        self._bar.visible = is_being_read_ahead(pack)
        self._fill.style(f"width: {100 * float(pack['progress']) if pack else 0:.0f}%")
        self._button.visible = can_be_read_ahead(pack)
        self._timer.interval = _LOOK_WHILE_READING_S if self._bar.visible else _LOOK_S

    async def _read(self) -> None:
        assert self._kb is not None
        if not await may_change(self._visitor):
            return
        try:
            answer = await self._visitor.context.packs.build(self._visitor.tenant, self._kb, Keeping())
            unless_too_large(answer, self._kb.name)
        except ApiError as error:
            toast(error.message, bad=True)
            return
        if answer.status >= 400:
            toast(_reason(answer), bad=True)
        await self.look()


def _reason(refused: UpstreamAnswer) -> str:
    return str(json.loads(refused.body)["error"]["message"])
