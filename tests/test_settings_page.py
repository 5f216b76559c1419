"""docs/settings.md says what the code says."""

from __future__ import annotations

from make_settings_page import PAGE, settings_page


def test_the_settings_page_names_every_setting_as_it_is() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), "run: python scripts/make_settings_page.py"
