"""`readahead bench regress`."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from readahead_serving.bench.hardware import describe_hardware
from readahead_serving.bench.output import print_json, print_tables
from readahead_serving.bench.regress.figures import Sizes, measure_figures
from readahead_serving.bench.regress.thresholds import Verdict, judge, read_thresholds
from readahead_serving.settings import ServingSettings


def run_regress(settings: ServingSettings, embedding_model: Path | None, *, as_json: bool) -> bool:
    """Measures, prints the verdicts, and says whether all hold.

    Args:
        settings: Of the servers that are started.
        embedding_model: A sentence-transformers folder; None where the settings name none.
        as_json: Print one JSON object instead of a table.

    Raises:
        BenchFailed: A server can't be run.
    """
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    bounds = read_thresholds()
    tell = partial(errors.print, markup=False)
    figures = asyncio.run(measure_figures(settings, embedding_model, Sizes(), tell))
    return tell_verdicts(judge(figures, bounds), as_json=as_json)


def tell_verdicts(verdicts: Sequence[Verdict], *, as_json: bool) -> bool:
    """Prints each figure beside its bound, and says whether all hold."""
    if as_json:
        print_json(_report(verdicts))
    else:
        print_tables([_table(verdicts)])
    return all(verdict.holds for verdict in verdicts)


def _report(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    return {
        "workload": "regress",
        "hardware": describe_hardware() | {"load_average": os.getloadavg()[0]},
        "command": shlex.join(sys.argv),
        "metrics": {verdict.threshold.name: verdict.value for verdict in verdicts},
        "breaches": [verdict.threshold.name for verdict in verdicts if not verdict.holds],
    }


def _table(verdicts: Sequence[Verdict]) -> Table:
    table = Table("figure", "value", "bound", "", "what it is")
    for verdict in verdicts:
        value = "-" if verdict.value is None else f"{verdict.value:.4g}"
        state = "holds" if verdict.holds else "BREACH"
        table.add_row(verdict.threshold.name, value, verdict.threshold.bound, state, verdict.threshold.why)
    return table
