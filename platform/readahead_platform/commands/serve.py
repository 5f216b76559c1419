"""`readahead serve`: the LLM server alone."""

from __future__ import annotations

from typing import Annotated

import typer

from readahead_platform.settings import read_settings


def serve(
    model: Annotated[str | None, typer.Option(help="Catalogue name, folder, GGUF file or hub id.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port to listen on.")] = None,
    weights: Annotated[str | None, typer.Option(help="How weights are stored: auto, fp32, bf16, int8, int4.")] = None,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the LLM server alone: OpenAI's API over one model."""
    if parent is not None:
        from readahead_platform.parent_death import die_with_parent

        die_with_parent(parent)
    from readahead_serving.cli import serve as serve_model

    given = {"serving.model": model, "serving.port": port, "serving.weights": weights}
    serve_model(read_settings(given).settings.serving)
