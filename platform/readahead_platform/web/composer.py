"""Where a question is typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import events, ui

from readahead_platform.routing.route import RequestedRoute
from readahead_platform.web.elements import block
from readahead_platform.web.turns import Tab
from readahead_platform.web.wording import ROUTES

MAX_QUESTION = 8000
"""Characters."""
_ENTER = """(e) => {
  if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  emit(e.target.value);
}"""
"""Enter sends; Shift+Enter is a new line; Enter that ends the composition of a Hangul syllable does neither."""


class Composer:
    """A field that grows, the route to take, and one button that sends or stops."""

    def __init__(self, tab: Tab, send: Callable[[str], Awaitable[None]], stop: Callable[[], None]) -> None:
        self._tab = tab
        self._send = send
        self._stop = stop
        with block("ra-composer"), block("ra-composer__box"):
            self._field = ui.textarea(placeholder="Ask your documents").classes("ra-composer__field")
            self._field.props(
                f'autogrow borderless dense autofocus maxlength={MAX_QUESTION} aria-label="Your question"'
            )
            self._field.on("keydown", self._on_enter, js_handler=_ENTER)
            with block("ra-composer__bar"):
                self._build_routes()
                self._send_button = ui.button("Send", icon="arrow_upward", on_click=self._on_click, color=None)
                self._stop_button = ui.button("Stop", icon="stop", on_click=stop, color=None)
        for button, kind in ((self._send_button, "main"), (self._stop_button, "stop")):
            button.props("unelevated no-caps").classes(f"ra-button ra-button--{kind}")
        self.set_busy(False)
        self.set_enabled(False)  # until it is known whom to ask: what is sent before would be lost

    def _build_routes(self) -> None:
        routes = ui.toggle(dict(ROUTES), value=self._tab.route).classes("ra-routes")
        routes.props('unelevated no-caps dense toggle-color="ra" toggle-text-color="ra" aria-label="How to answer"')
        with routes:
            ui.tooltip(
                "Auto decides; Search asks once; Whole text reads what the model has read ahead; Agent works in steps"
            ).props("delay=700")

        def choose(event: events.ValueChangeEventArguments[RequestedRoute]) -> None:
            self._tab.route = event.value

        routes.on_value_change(choose)

    def set_busy(self, busy: bool) -> None:
        self._send_button.visible = not busy
        self._stop_button.visible = busy

    def set_enabled(self, enabled: bool) -> None:
        self._field.set_enabled(enabled)
        self._send_button.set_enabled(enabled)

    async def _on_enter(self, event: events.GenericEventArguments) -> None:
        await self._submit(event.args if isinstance(event.args, str) else self._field.value)

    async def _on_click(self) -> None:
        await self._submit(self._field.value)

    async def _submit(self, value: str | None) -> None:
        question = (value or "").strip()
        if question and self._send_button.visible:
            self._field.value = ""
            await self._send(question[:MAX_QUESTION])
