"""`readahead bench WORKLOAD`: how fast a server answers under load."""

from __future__ import annotations

from typing import Annotated

import typer

from readahead_platform.commands.output import AsJson
from readahead_platform.settings import read_settings


def bench(
    workload: Annotated[str, typer.Argument(help="A workload's name; `list` tells them all.")],
    url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server; without it, one of our own is started.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model to ask, by default the server's first; our own server runs it.")
    ] = None,
    key: Annotated[str, typer.Option(help="The server's bearer key.")] = "",
    concurrency: Annotated[list[int] | None, typer.Option(min=1, help="Level of load; may be given again.")] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Requests at each level.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Completion tokens of a request.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure time to first token, gaps between tokens and throughput."""
    from readahead_serving.bench.runner import BenchOptions, run_bench

    options = BenchOptions(
        url=url,
        model=None if url is None else model,
        api_key=key,
        concurrency=tuple(concurrency) if concurrency else None,
        requests=requests,
        max_tokens=max_tokens,
    )
    settings = read_settings({"serving.model": model if url is None else None}).settings.serving
    run_bench(workload, options, settings, as_json=as_json)
