"""Writes docs/settings.md from the settings' own docstrings, so that the page cannot lag behind the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from readahead_platform.settings import Settings

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
HEAD = """# Settings

Read once at start, later ones winning: defaults, `readahead.toml` (in the working folder, at `$READAHEAD_CONFIG`, or in
`$READAHEAD_HOME`), `READAHEAD_…` variables, options of the command line. An unknown key or a bad value is an error that
names the nearest key. `readahead config` prints the tree in force and where each value came from.

This page is made by `python scripts/make_settings_page.py`.
"""


def settings_page() -> str:
    """Returns the page's text."""
    return HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    nested = {n: f.annotation for n, f in Settings.model_fields.items() if _is_model(f.annotation)}
    yield _table("", Settings, skip=set(nested))
    for name, model in nested.items():
        assert isinstance(model, type)
        yield _table(name, model, skip=set())


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _table(section: str, model: type[BaseModel], skip: set[str]) -> str:
    title = f"`[{section}]`" if section else "Top level"
    rows = [
        f"| `{name}` | `{_variable(section, name)}` | {_default(field.default)} | {_one_line(field.description)} |"
        for name, field in model.model_fields.items()
        if name not in skip
    ]
    return "\n".join(
        ["", f"## {title}", "", "| key | variable | default | meaning |", "| --- | --- | --- | --- |", *rows, ""]
    )


def _one_line(description: str | None) -> str:
    return " ".join((description or "").split())


def _variable(section: str, name: str) -> str:
    return f"READAHEAD_{section}__{name}".upper() if section else f"READAHEAD_{name}".upper()


def _default(value: object) -> str:
    return f"`{value}`" if str(value) else "empty"


if __name__ == "__main__":
    PAGE.write_text(settings_page(), encoding="utf-8")
