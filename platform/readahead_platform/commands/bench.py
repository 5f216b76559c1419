"""`readahead bench WORKLOAD`: how fast a server is under a stated load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from readahead_platform.commands.output import AsJson
from readahead_platform.settings import read_settings


def bench(
    workload: Annotated[str, typer.Argument(help="Name of a workload; `list` tells them.")],
    url: Annotated[str | None, typer.Option(help="Any OpenAI-compatible server; by default one of our own.")] = None,
    model: Annotated[str | None, typer.Option(help="Model to ask for; the server's first by default.")] = None,
    api_key: Annotated[str | None, typer.Option(help="The server's key; READAHEAD_API_KEY by default.")] = None,
    concurrency: Annotated[str | None, typer.Option(help="Levels of concurrency, such as 1,4,16.")] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Requests at each level.")] = None,
    prefix_tokens: Annotated[
        int | None, typer.Option(min=16, help="Tokens of the shared or long text, where the workload has one.")
    ] = None,
    peer: Annotated[
        list[str] | None, typer.Option(help="Another server that gets the same load by turns; may be repeated.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="PDFs that `ingest` and `read` take; where `peers` installs; where `curves` writes."),
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Vectors that `search` searches.")] = None,
    as_json: AsJson = False,
) -> None:
    """Time a server under load."""
    from readahead_platform.commands.bench_retrieval import WORKLOADS, bench_retrieval
    from readahead_platform.commands.bench_studies import STUDIES, run_study

    levels = _levels(concurrency)
    settings = read_settings().settings
    if workload in WORKLOADS:
        bench_retrieval(workload, settings, folder=folder, size=size, queries=requests, as_json=as_json)
        return
    if workload in STUDIES:
        run_study(workload, settings, folder=folder, as_json=as_json)
        return
    from readahead_serving.bench.runner import BenchOptions, run_bench

    options = BenchOptions(
        url=url,
        model=model,
        api_key=api_key or settings.api_key,
        concurrency=levels,
        requests=requests,
        prefix_tokens=prefix_tokens,
        peers=tuple(peer or ()),
    )
    run_bench(workload, options, settings.serving, as_json=as_json, others={**WORKLOADS, **STUDIES})


def _levels(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{text!r} is no list of numbers such as 1,4,16.", param_hint="--concurrency")
    return tuple(int(part) for part in parts)
