"""How cost grows: small curves of a real server, and the files that they are written to."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from readahead_serving.bench.client import LoadClient, Target
from readahead_serving.bench.curves.curve import Curve, write_csv
from readahead_serving.bench.curves.measurements import MEASUREMENTS, Bench, Sizes
from readahead_serving.bench.curves.memory import tree_bytes
from readahead_serving.bench.curves.plot import plot
from readahead_serving.bench.probe import ServerProbe
from readahead_serving.errors import BenchFailed
from tests.serving.llm_server import LlmServer

TINY = Sizes(
    users=(1, 3),
    long_pack=200,
    new_tokens=(16, 64),
    fixed_pack=200,
    pack_lengths=(200, 400),
    distinct_packs=(1, 2),
    small_pack=160,
    prompts=(50, 150),
    held_packs=2,
)


async def test_every_curve_is_measured_where_it_was_asked_for(llm_server: LlmServer) -> None:
    target = Target(llm_server.base_url, "smollm2-135m-instruct", "")
    curves: dict[str, Curve] = {}
    async with LoadClient(target) as client:
        bench = Bench(client, ServerProbe(target), llm_server.process.pid, TINY)
        for measurement in MEASUREMENTS:
            curves |= {curve.name: curve for curve in await measurement(bench)}
    assert set(curves) == {
        *("users", "memory-users", "new-tokens", "pack-length", "segments"),
        *("prefill", "prefill-rate", "memory-context", "memory-packs"),
    }
    assert all(y > 0 for curve in curves.values() for _, y in curve.points)
    assert [x for x, _ in curves["users"].points] == [1, 3]
    computed = [x for x, _ in curves["new-tokens"].points]
    assert computed[0] < computed[1] < 150, "the pack's tokens are not among those computed"
    from_packs = [x for x, _ in curves["pack-length"].points]
    assert from_packs[0] > 150
    assert from_packs[1] > 300
    assert [x for x, _ in curves["memory-packs"].points] == [0, 1, 2]


async def test_a_request_that_fails_is_no_point_of_a_curve(llm_server: LlmServer) -> None:
    target = Target(llm_server.base_url, "no-such-model", "")
    async with LoadClient(target) as client:
        bench = Bench(client, ServerProbe(target), llm_server.process.pid, TINY)
        with pytest.raises(BenchFailed, match="requests failed: HTTP 404"):
            for measurement in MEASUREMENTS[-1:]:
                await measurement(bench)


def test_curves_are_written_as_rows_and_as_a_picture_that_the_same_figures_make_again(tmp_path: Path) -> None:
    curves = [
        Curve("one", "The first", "users", "tokens/s", [(1.0, 10.0), (2.0, 18.5)], {}),
        Curve("two", "The second", "packs", "MB", [(0.0, 400.0), (8.0, 520.0)], {"pack_tokens": 1000}),
        Curve("three", "The third", "packs", "MB", [(0.0, 400.0)], {}),
    ]
    write_csv(curves, tmp_path / "curves.csv")
    with (tmp_path / "curves.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["curve"], float(row["x_value"]), float(row["y_value"])) for row in rows] == [
        (curve.name, *point) for curve in curves for point in curve.points
    ]
    pictures = []
    for name in ("a.svg", "b.svg"):
        plot(curves, tmp_path / name)
        pictures.append((tmp_path / name).read_text("utf-8"))
    assert pictures[0] == pictures[1]
    for curve in curves:
        assert curve.title in pictures[0]
        assert curve.y in pictures[0]


@pytest.mark.skipif(not Path("/proc").exists(), reason="memory is read from /proc")
def test_memory_counts_the_processes_beneath() -> None:
    grown = 64 << 20
    beneath = f"held = b'x' * {grown}; print(len(held), flush=True); input()"
    before = tree_bytes(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", beneath], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"{grown}\n"
        after = tree_bytes(os.getpid())
        child.communicate("\n")
    assert before is not None
    assert after is not None
    assert after - before > 0.9 * grown
