"""The first thing a new browser sees."""

from __future__ import annotations

from nicegui import ui

from readahead_platform.gateway.context import GatewayContext
from readahead_platform.web.elements import LOGO, block, text
from readahead_platform.web.visitor import sign_in

LINK_USED = "This link was used already or is too old. Sign in with your API key."
_UNKNOWN = "This key is unknown or was revoked. Check that you copied the whole key."
_EMPTY = "Paste your API key first."


def build_sign_in(context: GatewayContext, problem: str = "") -> None:
    """A card with one field. A right key is kept in the session and opens the page."""
    with block("ra-sign-in"), block("ra-sign-in__card"):
        with block("ra-brand"):
            ui.html(LOGO, sanitize=False)
            text("Readahead", "ra-brand__name", "h1")
        text("It has already read your documents.", "ra-sign-in__lead", "p")
        key = ui.input("API key", password=True, password_toggle_button=True).classes("ra-field")
        key.props('outlined autofocus autocomplete="current-password" input-class="ra-key"')
        error = ui.label(problem).classes("ra-error").props('role="alert"')
        error.bind_visibility_from(error, "text", bool)

        async def submit() -> None:
            given = (key.value or "").strip()
            if not given:
                error.text = _EMPTY
            elif await sign_in(context, given):
                ui.navigate.to("/")
            else:
                error.text = _UNKNOWN

        key.on("keydown.enter", submit)
        ui.button("Sign in", on_click=submit, color=None).props("unelevated no-caps").classes(
            "ra-button ra-button--main ra-wide"
        )
        text(
            "readahead up prints the key when it starts, and a link that signs you in without typing it.",
            "ra-sign-in__hint",
            "p",
        )
