"""Light, dark, or as the system says; kept for the browser."""

from __future__ import annotations

from nicegui import ui

from readahead_platform.web.elements import icon_button
from readahead_platform.web.visitor import keep_theme, theme

_NEXT: dict[bool | None, bool | None] = {None: True, True: False, False: None}
_LOOKS = {
    None: ("brightness_auto", "Theme: as the system"),
    True: ("dark_mode", "Theme: dark"),
    False: ("light_mode", "Theme: light"),
}


def apply_theme() -> ui.dark_mode:
    """Sets the page to the browser's kept theme."""
    return ui.dark_mode(theme())


class ThemeButton:
    """Each click takes the next of the three."""

    def __init__(self) -> None:
        self._mode = apply_theme()
        self._button = icon_button("brightness_auto", "Theme", self._change)
        self._draw()

    def _change(self) -> None:
        self._mode.value = _NEXT[self._mode.value]
        keep_theme(self._mode.value)
        self._draw()

    def _draw(self) -> None:
        icon, label = _LOOKS[self._mode.value]
        self._button.set_icon(icon)
        self._button.props["aria-label"] = label
