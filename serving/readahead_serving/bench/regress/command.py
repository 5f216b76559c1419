"""`readahead bench regress`."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from readahead_serving.bench.hardware import describe_hardware
from readahead_serving.bench.output import print_json, print_tables
from readahead_serving.bench.regress.figures import Figures, measure_figures
from readahead_serving.bench.regress.thresholds import Threshold, Verdict, judge, read_thresholds
from readahead_serving.settings import ServingSettings

DESCRIPTION = "ratios and counts that a busy machine does not change, held against the bounds kept beside the code"


def run_regress(settings: ServingSettings, *, as_json: bool) -> bool:
    """Measures, prints the verdicts, and says whether all hold.

    Raises:
        BenchFailed: A server can't be run.
    """
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    thresholds = read_thresholds()
    figures = asyncio.run(measure_figures(settings, lambda line: errors.print(line, markup=False)))
    return print_verdicts(figures, thresholds, as_json=as_json)


def print_verdicts(figures: Figures, thresholds: Sequence[Threshold], *, as_json: bool) -> bool:
    """Prints each figure beside its bound; whether all hold."""
    verdicts = judge(figures, thresholds)
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
