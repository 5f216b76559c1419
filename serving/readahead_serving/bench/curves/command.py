"""`readahead bench curves`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from readahead_serving.bench.client import LoadClient, Target, first_model
from readahead_serving.bench.curves.curve import Curve, write_csv
from readahead_serving.bench.curves.measurements import MEASUREMENTS, Bench, Sizes
from readahead_serving.bench.curves.plot import plot
from readahead_serving.bench.hardware import describe_hardware
from readahead_serving.bench.output import print_json, print_tables
from readahead_serving.bench.own_server import own_server
from readahead_serving.bench.probe import ServerProbe
from readahead_serving.settings import ServingSettings

_ROOMY = {"pack_memory_bytes": 4 << 30, "pack_pin_share": 1.0, "embedding_model": ""}
"""Every pack of every curve stays where it is."""
PICTURE, ROWS = "curves.svg", "curves.csv"


def run_curves(settings: ServingSettings, folder: Path, *, as_json: bool, sizes: Sizes | None = None) -> None:
    """Measures every curve on a server of ours, writes CSV and a picture, and prints the points.

    Args:
        settings: Of the server.
        folder: Where `curves.csv` and `curves.svg` are written; made where it is missing.
        as_json: Print one JSON object instead of tables.
        sizes: Where the curves are measured.

    Raises:
        BenchFailed: The server can't be run, a request failed, or matplotlib is missing.
    """
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    curves = asyncio.run(measured(settings, sizes or Sizes(), lambda line: errors.print(line, markup=False)))
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(curves, folder / ROWS)
    plot(curves, folder / PICTURE)
    if as_json:
        print_json(_report(curves))
    else:
        print_tables([_table(curve) for curve in curves], [f"Written: {folder / ROWS}, {folder / PICTURE}"])


async def measured(settings: ServingSettings, sizes: Sizes, tell: Callable[[str], None]) -> list[Curve]:
    """All curves, on one server after another measurement's end."""
    curves: list[Curve] = []
    async with running(settings, sizes) as bench:
        for measurement in MEASUREMENTS:
            tell(measurement.__name__.replace("_", " "))
            curves += await measurement(bench)
    return curves


@contextlib.asynccontextmanager
async def running(settings: ServingSettings, sizes: Sizes) -> AsyncIterator[Bench]:
    """A server of ours whose packs are thrown away at the end."""
    with tempfile.TemporaryDirectory(prefix="readahead-bench-") as packs:
        settings = settings.model_copy(update={"packs_dir": Path(packs), **_ROOMY})
        async with own_server(settings) as server:
            target = Target(server.url, await first_model(server.url, ""), "")
            async with LoadClient(target) as client:
                yield Bench(client, ServerProbe(target), server.process.pid, sizes)


def _report(curves: list[Curve]) -> dict[str, Any]:
    return {
        "workload": "curves",
        "hardware": describe_hardware() | {"load_average": os.getloadavg()[0]},
        "command": shlex.join(sys.argv),
        "curves": [asdict(curve) for curve in curves],
    }


def _table(curve: Curve) -> Table:
    table = Table(curve.x, curve.y, title=curve.title)
    for x, y in curve.points:
        table.add_row(f"{x:g}", f"{y:g}")
    return table
