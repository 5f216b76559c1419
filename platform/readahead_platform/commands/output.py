"""What commands print: text for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


def examples(*commands: str) -> str:
    """The end of a command's help: what to type, a line each."""
    return "\n\n".join(("Examples:", *(f"readahead {command}" for command in commands)))


def print_json(data: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False))


def print_error(error: Exception, *, as_json: bool) -> None:
    """One line to stderr, or the error object to stdout."""
    message = " ".join(str(error).split())
    if as_json:
        print_json({"error": {"code": getattr(error, "code", None) or "failed", "message": message}})
    else:
        typer.echo(f"readahead: {message}", err=True)


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest cell."""
    table = [tuple(head), *(tuple(str(cell) for cell in row) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def counted(number: int, noun: str) -> str:
    """ "1 page", "2 pages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def is_terminal() -> bool:
    """Whether a person watches stderr, where progress is shown."""
    return sys.stderr.isatty()
