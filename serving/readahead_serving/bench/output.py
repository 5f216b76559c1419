"""How reports are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_UNBOUNDED = 10_000


def print_json(report: Mapping[str, Any]) -> None:
    """One object on one line."""
    Console(soft_wrap=True, highlight=False).print(json.dumps(report), markup=False)


def print_lines(lines: Iterable[str]) -> None:
    """Plain text, a line each."""
    Console(soft_wrap=True, highlight=False).print("\n".join(lines), markup=False)


def print_tables(tables: Sequence[Table], lines: Sequence[str] = ()) -> None:
    """Tables and lines below them. A terminal may wrap a wide table and a pipe has no width: no figure is cut off."""
    console = Console(highlight=False)
    unbounded = console.options.update_width(_UNBOUNDED)
    console.width = max(console.width, *(console.measure(table, options=unbounded).maximum for table in tables))
    console.print(*tables, sep="\n")
    for line in lines:
        console.print(line, markup=False)
