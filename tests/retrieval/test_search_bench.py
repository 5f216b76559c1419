"""The measuring of search and ingestion, on sizes that take no time: what it reports, not how fast it is."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from readahead_platform.cli import app
from readahead_platform.own_embedder import own_embedder
from readahead_retrieval.bench.ingest import bench_ingest
from readahead_retrieval.bench.mixture import Mixture
from readahead_retrieval.bench.read import bench_read
from readahead_retrieval.bench.search import bench_search
from readahead_retrieval.embedding import Embedder
from readahead_retrieval.settings import RetrievalSettings
from readahead_serving.settings import ServingSettings


def silent(stage: str, done: int, total: int) -> None:
    pass


def test_the_mixture_is_the_same_every_time_and_has_near_neighbours() -> None:
    (first,), (again,), (other,) = (list(Mixture().batches(4000, stream)) for stream in (1, 1, 2))
    assert np.array_equal(first, again)
    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)
    similar = np.sort(other[:100] @ first.T, axis=1)
    assert 0.5 < similar[:, -1].mean() < 0.95  # near, and not the same
    assert abs(float(np.median(similar))) < 0.05


def test_search_is_measured_against_every_vector_compared() -> None:
    report = bench_search(3000, 20, silent)
    assert report["load"] == {"vectors": 3000, "dimension": 384, "words": 24, "queries": 20, "threads": 1}
    assert report["metrics"]["recall@10"] == 1.0  # so few are compared one by one
    assert set(report["metrics"]["dense_ms"]) == {"p50", "p95", "p99"}
    assert report["metrics"]["dense_file_bytes"] > 3000 * 384 * 4


def test_ingestion_is_measured_to_the_last_searchable_document(handbook: Path, minilm_path: Path) -> None:
    def load(path: Path) -> AbstractAsyncContextManager[Embedder]:
        return own_embedder(path, ServingSettings())

    report = bench_ingest(handbook.parent, minilm_path, load, RetrievalSettings(), silent)
    assert (report["load"]["documents"], report["load"]["pages"]) == (1, 3)
    assert report["metrics"]["not_searchable"] == 0
    assert report["metrics"]["chunks"] >= 1
    assert report["metrics"]["reading_s"] > 0
    for peer in report["metrics"]["peers"].values():
        assert "missing" in peer or peer["seconds"] > 0


def test_reading_is_measured_by_the_clock_and_by_processor_time_of_every_process(
    handbook: Path, tmp_path: Path
) -> None:
    shutil.copy(handbook, tmp_path)
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing after it")
    report = bench_read(tmp_path, RetrievalSettings(), silent, turns=1)
    assert report["load"]["documents"] == 2
    metrics = report["metrics"]
    for name in ("ours", "ours_one_at_a_time", "pypdf"):
        assert (metrics[name]["pages"], metrics[name]["unread_files"]) == (3, 1)
        assert metrics[name]["pages_per_processor_s"] > 0
    assert metrics["ours"]["pages_per_processor_s"] < 150, (
        "starting an interpreter to read three pages takes over 20 ms"
    )
    ratio = metrics["ours"]["pages_per_s"] / metrics["pypdf"]["pages_per_s"]
    assert metrics["times_pypdf"] == pytest.approx(ratio)


def test_a_peer_that_is_not_installed_is_told_as_missing(handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    metrics = bench_read(handbook.parent, RetrievalSettings(), silent, turns=1)["metrics"]
    assert "pip install" in metrics["pypdf"]["missing"]
    assert "times_pypdf" not in metrics


def test_the_list_of_workloads_tells_retrievals_too() -> None:
    listed = CliRunner().invoke(app, ["bench", "list", "--json"])
    assert {"ingest", "read", "search", "embed", "w1"} <= set(json.loads(listed.output)["workloads"])
