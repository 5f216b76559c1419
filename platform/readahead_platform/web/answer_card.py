"""One turn on the page: the question, and the answer as it grows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import events, ui

from readahead_platform.web.approvals_view import ApprovalsView, Decide
from readahead_platform.web.elements import block, icon_button, text, toast
from readahead_platform.web.prose import answer_html
from readahead_platform.web.sources import Source, marks, number_sources
from readahead_platform.web.steps_view import StepsView
from readahead_platform.web.turns import Turn
from readahead_platform.web.wording import ROUTE_NAMES

OpenSource = Callable[[Source], Awaitable[None]]
_MARK_CLICK = "(e) => { const b = e.target.closest('[data-source]'); if (b) emit(Number(b.dataset.source)) }"


class AnswerCard:
    """Draws a turn; `refresh` after each change of it."""

    def __init__(self, turn: Turn, open_source: OpenSource, regenerate: Callable[[], Any], decide: Decide) -> None:
        self._turn = turn
        self._open_source = open_source
        self._sources: list[Source] = []
        text(turn.question, "ra-question")
        with block("ra-answer", "article").props('aria-label="Answer"') as self.root:
            self._route = block("ra-route")
            self._steps = StepsView(turn)
            self._approvals = ApprovalsView(turn, decide)
            self._waiting = block("ra-waiting").props('role="status" aria-label="Working on the answer"')
            with self._waiting:
                for _ in range(3):
                    block("ra-dot", "span")
            self._prose = ui.html("", sanitize=True).classes("ra-prose")
            self._prose.on("click", self._on_mark, js_handler=_MARK_CLICK)
            self._notes = block("ra-remarks", "ul").props('aria-label="Notes on the answer"')
            self._note = block("ra-note")
            self._error = ui.label().classes("ra-error").props('role="alert"')
            self._chips = block("ra-chips").props('aria-label="Sources"')
            with block("ra-answer__actions") as self._actions:
                icon_button("refresh", "Answer again", regenerate)
                icon_button("content_copy", "Copy the answer", self._copy)
        self._drawn: tuple[object, ...] = ()
        self._written: tuple[object, ...] = ()
        self.refresh()

    def refresh(self) -> None:
        """Brings the elements up to the turn."""
        turn = self._turn
        self._draw_prose()
        self._waiting.visible = not turn.done and not turn.answer
        self._error.text, self._error.visible = turn.error, bool(turn.error)
        self._actions.visible = turn.done
        self._steps.refresh()
        self._approvals.refresh()
        drawn = (len(turn.citations), turn.route, turn.asked_as, turn.done, turn.covered, turn.stopped)
        if drawn != self._drawn:
            self._drawn = drawn
            self._draw_route()
            self._draw_chips()
            self._draw_note()
            self._draw_notes()

    @property
    def is_done(self) -> bool:
        return self._turn.done

    def _draw_prose(self) -> None:
        written = (self._turn.answer, self._turn.citations)
        if written != self._written:
            self._written = written
            self._sources = number_sources(self._turn.citations)
            self._prose.set_content(answer_html(self._turn.answer, marks(self._turn.citations, self._sources)))

    def _draw_route(self) -> None:
        self._route.clear()
        if self._turn.route is None:
            return
        with self._route:
            text(ROUTE_NAMES[self._turn.route.chosen], "ra-route__name", "span")
            text(self._turn.route.why, "ra-route__why", "span")
            if self._turn.asked_as:
                text(f"Asked as: {self._turn.asked_as}", "ra-route__why", "span")

    def _draw_chips(self) -> None:
        self._chips.clear()
        with self._chips:
            for source in self._sources:
                self._chip(source)

    def _chip(self, source: Source) -> None:
        label = f"Source {source.number}: {source.document}, page {source.page_label}"
        chip = block("ra-chip", "button").props('type="button"').on("click", lambda: self._open_source(source))
        chip.mark(f"source-{source.number}")
        chip.props["aria-label"] = label
        chip.props["title"] = label
        with chip:
            text(str(source.number), "ra-chip__number", "span")
            text(source.document, "ra-chip__name", "span")
            text(f"p. {source.page_label}", "ra-chip__page", "span")

    def _draw_note(self) -> None:
        self._note.clear()
        for applies, icon, note in (
            (self._turn.done and not self._turn.covered, "search_off", "Not in the documents"),
            (self._turn.unsupported, "help_outline", "No passage in the documents supports this answer"),
            (self._turn.stopped, "stop_circle", "Stopped"),
            (self._turn.cut_short, "content_cut", "The answer reached its length limit"),
        ):
            if applies:
                with self._note, block("ra-badge"):
                    ui.icon(icon)
                    ui.label(note)

    def _draw_notes(self) -> None:
        self._notes.clear()
        with self._notes:
            for note in self._turn.notes:
                text(note, "ra-remark", "li")

    async def _on_mark(self, event: events.GenericEventArguments) -> None:
        found = [source for source in self._sources if source.number == event.args]
        if found:
            await self._open_source(found[0])

    def _copy(self) -> None:
        ui.clipboard.write(self._turn.answer)
        toast("Copied")
