"""`readahead bench ingest|read|search`: retrieval's own workloads, which need no server."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from readahead_platform.commands.output import print_json, print_table
from readahead_platform.settings import Settings
from readahead_retrieval.bench.runner import QUERIES, VECTORS, WORKLOADS, BenchOptions, run

__all__ = ["WORKLOADS", "bench_retrieval"]


_SAMPLES = Path("sample_docs")


def bench_retrieval(
    workload: str, settings: Settings, *, folder: Path | None, size: int | None, queries: int | None, as_json: bool
) -> None:
    """Runs it and prints its report, with the machine and its load."""
    from readahead_platform.commands.models import ensure_models
    from readahead_platform.commands.progress import progress_view
    from readahead_platform.own_embedder import own_embedder
    from readahead_serving.bench.hardware import describe_hardware

    folder, model = folder or _SAMPLES, None
    if workload != "search" and not any(folder.rglob("*.pdf")):
        raise typer.BadParameter(f"{folder} holds no PDF.", param_hint="--folder")
    if workload == "ingest":
        (model,) = ensure_models(settings, [settings.serving.embedding_model], as_json=as_json)
    options = BenchOptions(
        folder, model, size or VECTORS, queries or QUERIES, embedder=lambda path: own_embedder(path, settings.serving)
    )
    with progress_view(as_json=as_json) as view:
        measured = run(
            workload, options, settings.retrieval, lambda stage, done, total: view.update(workload, stage, done, total)
        )
    hardware = describe_hardware() | {"load_average": os.getloadavg()[0]}
    report = {"workload": workload, "server": None, "hardware": hardware, "command": shlex.join(sys.argv), **measured}
    if as_json:
        print_json(report)
    else:
        print_table(("METRIC", "VALUE"), [(name, value) for name, value in _flat(report["metrics"])])


def _flat(metrics: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in metrics.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{before}{name}.")
        else:
            rows.append((before + name, f"{value:.4g}" if isinstance(value, float) else str(value)))
    return rows
