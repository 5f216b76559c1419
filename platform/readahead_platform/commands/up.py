"""`readahead up`: everything on one machine, with one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from readahead_platform.settings import read_settings

_SAMPLES = Path("sample_docs")


def up(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port of the web page and the API.")] = None,
    model: Annotated[str | None, typer.Option(help="Catalogue name, folder, GGUF file or hub id.")] = None,
    samples: Annotated[Path | None, typer.Option(help="Folder of sample PDFs; ./sample_docs by default.")] = None,
    no_samples: Annotated[bool, typer.Option("--no-samples", help="Do not ingest the sample documents.")] = False,
) -> None:
    """Start everything on this machine and serve until Ctrl-C."""
    loaded = read_settings({"port": port, "serving.model": model})
    from readahead_platform.commands.serve_everything import serve_everything

    serve_everything(loaded, None if no_samples else samples or _SAMPLES)
