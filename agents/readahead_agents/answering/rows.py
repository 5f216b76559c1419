"""Rows of tables as people and small models read them: with the name of the column before each value."""

from __future__ import annotations

import re

CELL = "|"
MAX_NAME_CHARS = 40
"""What is longer heads no column."""
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")


def is_row(text: str) -> bool:
    return CELL in text


def cells(row: str) -> list[str]:
    """The values of a row, on one line each."""
    return [" ".join(cell.split()) for cell in row.strip().strip(CELL).split(CELL)]


def may_head(row: str, below: str) -> bool:
    """Whether a row can be the header of the one below it, and not one of values that an earlier header names."""
    names, values = cells(row), cells(below)
    return all(map(_may_name, names)) and not _are_counted(names, values)


def in_words(row: str, header: str) -> str:
    """ "Zone: B; Limit per night: 130 crowns"; the values alone where the line above them names no columns."""
    values, names = cells(row), cells(header)
    if not header or not _heads(names, values):
        return " · ".join(value for value in values if value)
    return "; ".join(f"{name}: {value}" if name else value for name, value in zip(names, values, strict=True) if value)


def _heads(names: list[str], values: list[str]) -> bool:
    """Whether these are the columns' names. A first row of values looks as the others do: figures over figures."""
    return len(names) == len(values) and all(map(_may_name, names)) and not _are_counted(names, values)


def _are_counted(names: list[str], values: list[str]) -> bool:
    return any(_counts(name) and any(map(str.isdigit, value)) for name, value in zip(names, values, strict=False))


def _may_name(name: str) -> bool:
    return len(name) <= MAX_NAME_CHARS and (not name or name[0].isalnum())


def _counts(name: str) -> bool:
    return any(map(str.isdigit, name)) and _YEAR.fullmatch(name) is None
