"""`readahead version`."""

from __future__ import annotations

import typer


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as version_of

    typer.echo(version_of("readahead"))
