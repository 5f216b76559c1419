"""The benchmark against a real server, on a load as small as it can be."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from readahead_serving.bench.client import Timing
from readahead_serving.bench.own_server import free_port
from readahead_serving.bench.report import percentile, summarise
from readahead_serving.bench.runner import BenchOptions, run_bench
from readahead_serving.bench.workloads import WORKLOADS, Goal
from readahead_serving.errors import BenchFailed
from readahead_serving.settings import ServingSettings
from tests.serving.llm_server import LlmServer

TINY = BenchOptions(concurrency=(1, 2), requests=2, max_tokens=4)
GOAL = Goal(ttft_ms=100, tbt_ms=50)


def test_the_report_has_its_promised_shape(llm_server: LlmServer, capsys: pytest.CaptureFixture[str]) -> None:
    run_bench("chat", replace(TINY, url=llm_server.address), ServingSettings(), as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["workload"] == "chat"
    assert report["server"] == {"url": llm_server.base_url, "model": "smollm2-135m-instruct", "own": False}
    assert report["hardware"]["cores"] >= 1
    assert report["hardware"]["memory_bytes"] > 1 << 30
    assert [run["load"]["concurrency"] for run in report["runs"]] == [1, 2]
    assert report["load"] == report["runs"][-1]["load"]
    metrics = report["metrics"]
    for name in ("ttft_ms", "tbt_ms", "e2e_ms"):
        assert 0 < metrics[name]["p50"] <= metrics[name]["p95"] <= metrics[name]["p99"]
    assert metrics["e2e_ms"]["p50"] > metrics["ttft_ms"]["p50"]
    assert metrics["completion_tokens"] == 8
    assert metrics["computed_tokens"] + metrics["cached_tokens"] == metrics["prompt_tokens"] > 0
    assert metrics["errors"] == 0
    assert metrics["output_tokens_per_s"] > 0


def test_people_get_a_table_with_a_row_for_each_level(
    llm_server: LlmServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run_bench("chat", replace(TINY, url=llm_server.base_url), ServingSettings(), as_json=False)
    out = capsys.readouterr().out
    assert "TTFT" in out
    assert "TBT" in out


def test_a_load_of_which_nothing_finishes_is_an_error(llm_server: LlmServer) -> None:
    options = replace(TINY, url=llm_server.address, max_tokens=10**6)
    with pytest.raises(BenchFailed, match="HTTP 400 context_length_exceeded"):
        run_bench("chat", options, ServingSettings(), as_json=True)


def test_the_list_names_every_workload(capsys: pytest.CaptureFixture[str]) -> None:
    run_bench("list", BenchOptions(), ServingSettings(), as_json=True)
    assert set(json.loads(capsys.readouterr().out)["workloads"]) == set(WORKLOADS)


def test_an_unknown_workload_and_an_absent_server_are_told() -> None:
    with pytest.raises(BenchFailed, match="No workload 'nope'"):
        run_bench("nope", BenchOptions(), ServingSettings(), as_json=True)
    with pytest.raises(BenchFailed, match="Can't list the models"):
        run_bench("chat", BenchOptions(url=f"http://127.0.0.1:{free_port()}"), ServingSettings(), as_json=True)


def test_gaps_are_pooled_over_requests_and_failures_have_no_latency() -> None:
    steady = Timing(text_at=[0.05, 0.06, 0.07], done_at=0.08, completion_tokens=3)
    stalled = Timing(text_at=[0.2, 0.6], done_at=0.7, completion_tokens=2)
    failed = Timing(done_at=9.0, error="HTTP 429")
    metrics = summarise([steady, stalled, failed], wall_s=2.0, goal=GOAL)
    assert metrics["tbt_ms"]["p50"] == pytest.approx(10)
    assert metrics["tbt_ms"]["p99"] == pytest.approx(percentile([10, 10, 400], 99))
    assert metrics["e2e_ms"]["p99"] < 1000
    assert metrics["output_tokens_per_s"] == 2.5
    assert metrics["requests_per_s"] == 1.0
    assert metrics["goodput_rps"] == 0.5
    assert (metrics["errors"], metrics["error_messages"]) == (1, {"HTTP 429": 1})
