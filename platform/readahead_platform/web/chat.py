"""The conversation with one knowledge base."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing

from nicegui import background_tasks, ui

from readahead_platform.gateway.errors import to_api_error
from readahead_platform.web.answer_card import AnswerCard, OpenSource
from readahead_platform.web.composer import Composer
from readahead_platform.web.elements import block, text, toast
from readahead_platform.web.kept_run import answered_by_run, decided, may_be_asked
from readahead_platform.web.permission import SIGNED_OUT, may_change
from readahead_platform.web.suggestions import suggestions
from readahead_platform.web.turns import Approval, Tab, Turn, messages_for
from readahead_platform.web.visitor import Visitor
from readahead_platform.web.wording import problem_line
from readahead_retrieval.types import Document, DocumentState, KnowledgeBase

_REDRAW_S = 0.06
"""Seconds between redraws while an answer grows: faster than reading, and slow enough for a slow connection."""


class Chat:
    """Shows the turns of the tab's knowledge base and runs one answer at a time."""

    def __init__(self, visitor: Visitor, tab: Tab, open_source: OpenSource) -> None:
        self._visitor = visitor
        self._tab = tab
        self._open_source = open_source
        self._kb: KnowledgeBase | None = None
        self._growing: list[AnswerCard] = []
        """Cards of answers that are not finished."""
        with block("ra-messages").props('role="log" aria-label="Conversation" tabindex="0"'):
            self._welcome = block("ra-welcome")
            self._list = block("ra-turns")
        self._composer = Composer(tab, self.ask, tab.stop)
        self._redrawing = ui.timer(_REDRAW_S, self._redraw, active=False)
        tab.pages += 1
        ui.context.client.on_delete(self._left)

    async def show(self, kb: KnowledgeBase | None) -> None:
        """Changes to another knowledge base; an answer that is still running for another one is stopped."""
        if kb is None or kb.id != self._tab.running_kb:
            self._tab.stop()
        self._kb = kb
        self._list.clear()
        self._growing.clear()
        self._composer.set_enabled(kb is not None)
        if kb is not None:
            with self._list:
                for turn in self._tab.turns(kb.id):
                    self._card(turn)
        self._follow()
        await self.refresh_welcome()

    async def refresh_welcome(self) -> None:
        """What stands there before the first question."""
        kb = self._kb
        empty = kb is None or not self._tab.turns(kb.id)
        documents = await self._visitor.context.library.list_documents(self._visitor.tenant, kb.id) if kb else []
        if kb is not self._kb:
            return
        self._welcome.visible = empty
        self._welcome.clear()
        with self._welcome:
            text("What would you like to know?" if documents else "Add your first PDF", "ra-welcome__title", "h2")
            text(_lead(kb, documents), "ra-welcome__lead", "p")
            with block("ra-suggestions"):
                for question in suggestions(documents):
                    self._suggestion(question)

    def _suggestion(self, question: str) -> None:
        with block("ra-suggestion", "button").props('type="button"').on("click", lambda: self.ask(question)):
            ui.label(question)

    async def ask(self, question: str) -> None:
        """Starts an answer; ignored while another runs."""
        if self._kb is None or self._tab.running is not None:
            return
        turns, turn = self._tab.turns(self._kb.id), Turn(question)
        earlier = list(turns)
        turns.append(turn)
        self._welcome.visible = False
        with self._list:
            self._card(turn)
        answering = background_tasks.create(self._answer(self._kb, earlier, turn), name="web-answer")
        self._tab.run(answering, self._kb.id, turn)
        self._follow()

    def _left(self) -> None:
        """A reload opens the next page before this one is dropped, and the answer goes on for it."""
        self._tab.pages -= 1
        if not self._tab.pages:
            self._tab.stop()

    def _follow(self) -> None:
        self._composer.set_busy(bool(self._growing))
        self._redrawing.active = bool(self._growing)

    def _redraw(self) -> None:
        for card in self._growing:
            card.refresh()
        self._growing = [card for card in self._growing if not card.is_done]
        self._follow()

    async def _answer(self, kb: KnowledgeBase, earlier: list[Turn], turn: Turn) -> None:
        try:
            await self._stream(kb, earlier, turn)
        except asyncio.CancelledError:
            turn.stopped = True
        except Exception as error:  # noqa: BLE001 - the top-level loop of an answer: any error becomes a sentence
            told = to_api_error(error)
            turn.error = problem_line(told.code, told.message)

    async def _stream(self, kb: KnowledgeBase, earlier: list[Turn], turn: Turn) -> None:
        visitor, route = self._visitor, self._tab.route
        key = await visitor.key()
        if key is None:
            turn.error = SIGNED_OUT
            return
        messages = messages_for(earlier, turn.question)
        if may_be_asked(visitor.context, key, route):
            await answered_by_run(visitor, kb, messages, route, turn)
            return
        async with aclosing(visitor.context.chat.ask(visitor.tenant, kb.id, messages, route)) as stream:
            async for event in stream:
                turn.apply(event)

    def _card(self, turn: Turn) -> None:
        card = AnswerCard(turn, self._open_source, lambda: self.ask(turn.question), self._decide)
        if not turn.done:
            self._growing.append(card)

    async def _decide(self, turn: Turn, approval: Approval, approve: bool) -> bool:
        if not await may_change(self._visitor):
            return False
        if not decided(self._visitor.context, turn, approval, approve=approve):
            toast("It has been decided already.")
        return True


def _lead(kb: KnowledgeBase | None, documents: Sequence[Document]) -> str:
    if kb is None:
        return "Make a knowledge base first, then drop PDFs anywhere on this page."
    if not documents:
        return "Drop PDFs anywhere on this page. You can ask as soon as the first one has been read."
    if not any(document.state is DocumentState.SEARCHABLE for document in documents):
        return "You can ask as soon as the first document has been read."
    return f"Answers come from {kb.name} and cite the page they stand on."
