"""Small pieces that the page is built of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

LOGO = (
    '<svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><rect width="32" height="32" rx="9" '
    'fill="var(--ra-accent)"/><path d="M8 10.5h6.5M8 16h4.5M8 21.5h6.5" stroke="#fff" stroke-width="2.4" '
    'stroke-linecap="round" opacity=".75"/><path d="m17 9.5 6.5 6.5-6.5 6.5" fill="none" stroke="#fff" '
    'stroke-width="2.8" stroke-linecap="round" stroke-linejoin="round"/></svg>'
)
FAVICON = LOGO.replace("var(--ra-accent)", "#14636d").replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')


def block(classes: str, tag: str = "div") -> ui.element:
    """A plain element."""
    return ui.element(tag).classes(classes)


def text(content: str, classes: str, tag: str = "div") -> ui.element:
    """Plain text in an element; never markup."""
    with block(classes, tag) as element:
        ui.label(content).classes("ra-inline")
    return element


def icon_button(icon: str, label: str, on_click: Callable[..., Any], classes: str = "") -> ui.button:
    """A button that shows only an icon; `label` is its name for screen readers and its tooltip."""
    button = ui.button(icon=icon, on_click=on_click, color=None).props(f'flat round dense aria-label="{label}"')
    with button.classes(f"ra-icon-button {classes}").mark(label):
        ui.tooltip(label).props("delay=500")
    return button


def toast(message: str, *, bad: bool = False) -> None:
    """One sentence that goes by itself."""
    classes = "ra-toast ra-toast--bad" if bad else "ra-toast"
    ui.notify(
        message,
        position="bottom",
        classes=classes,
        timeout=6000 if bad else 3000,
        close_button="Close" if bad else False,
    )


async def confirmed(title: str, body: str, action: str, otherwise: str = "Cancel") -> bool:
    """Asks before something is lost. Esc and a click beside the dialog mean `otherwise`, which is no."""
    with ui.dialog() as dialog, ui.card().classes("ra-dialog").props('role="alertdialog"'):
        text(title, "ra-dialog__title", "h2")
        text(body, "ra-dialog__body", "p")
        with block("ra-dialog__actions"):
            ui.button(otherwise, on_click=lambda: dialog.submit(False), color=None).props("flat no-caps").classes(
                "ra-button"
            )
            ui.button(action, on_click=lambda: dialog.submit(True), color=None).props(
                "unelevated no-caps autofocus"
            ).classes("ra-button ra-button--danger")
    answer = await dialog
    if not dialog.is_deleted:  # it goes with its page when the tab is closed
        dialog.delete()
    return bool(answer)
