"""The benchmark against a real server, on a load as small as it can be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from readahead_serving.bench.client import LoadRequest, Timing, user_message
from readahead_serving.bench.hits import hit_report, shareable
from readahead_serving.bench.own_server import free_port
from readahead_serving.bench.report import ratios
from readahead_serving.bench.runner import BenchOptions, run_bench
from readahead_serving.bench.spread import percentile
from readahead_serving.bench.summary import Goal, summarise
from readahead_serving.bench.workloads import WORKLOADS
from readahead_serving.bench.workloads.long_prefill import gaps_within, moved
from readahead_serving.bench.workloads.quoting import quoted_share, runs
from readahead_serving.errors import BenchFailed
from readahead_serving.settings import ServingSettings
from tests.serving import peer_server
from tests.serving.llm_server import LlmServer, running_server
from tests.serving.test_backends_transformers import save_random_model

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
    with pytest.raises(BenchFailed, match="starts and kills its own server"):
        run_bench("pack-restart", BenchOptions(url="http://127.0.0.1:9"), ServingSettings(), as_json=True)
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


@pytest.mark.parametrize("name", ["quote", "w1", "w2", "w3", "w4", "w5", "w6"])
def test_every_workload_runs_small_and_tells_what_it_is_for(
    llm_server: LlmServer, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    options = replace(TINY, url=llm_server.address, concurrency=(2,), requests=4, prefix_tokens=200)
    if name == "w2":
        options = replace(options, prefix_tokens=1000)
    run_bench(name, options, ServingSettings(), as_json=True)
    report = json.loads(capsys.readouterr().out)
    metrics = report["metrics"]
    assert report["workload"] == name
    assert report["load"]["kind"]
    assert metrics["errors"] == 0
    expected = {
        "quote": {"quoted_share"},
        "w1": {"theoretical_cached_tokens", "cache_note", "cold_ttft_ms", "engine_computed_tokens"},
        "w2": {"theoretical_cached_tokens", "cache_note"},
        "w3": {"theoretical_cached_tokens", "cache_note"},
        "w4": {"tbt_p99_during_over_before", "longest_stall_beyond_step_ms", "tbt_before_ms", "long_ttft_ms"},
        "w5": {"capacity_rps", "goodput_at_capacity_rps", "goodput_kept", "refused", "refusal_ms"},
        "w6": {"cancelled", "leaked_tokens", "integrity_checks"},
    }
    assert expected[name] <= set(metrics)
    if name == "w1":
        assert metrics["cached_tokens"] >= 0.9 * metrics["theoretical_cached_tokens"] > 0
    if name == "w6":
        assert metrics["leaked_tokens"] == 0
        assert metrics["integrity_checks"] >= 1


def test_a_peer_gets_the_same_load_and_ratios_say_who_wins(
    llm_server: LlmServer, capsys: pytest.CaptureFixture[str]
) -> None:
    options = replace(TINY, url=llm_server.address, peers=(llm_server.base_url,))
    run_bench("chat", options, ServingSettings(), as_json=True)
    report = json.loads(capsys.readouterr().out)
    [peer] = report["peers"]
    assert [run["load"] for run in peer["runs"]] == [run["load"] for run in report["runs"]]
    assert peer["metrics"]["completion_tokens"] == report["metrics"]["completion_tokens"]
    assert all(figures["output_tokens_per_s"] > 0 for figures in peer["ratios"])
    run_bench("chat", options, ServingSettings(), as_json=False)
    assert "ours over" in capsys.readouterr().out


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    """A server that is not ours, in a process of its own, with room for two requests at a time."""
    command = [sys.executable, str(Path(peer_server.__file__)), "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


def test_any_openai_compatible_server_can_be_the_peer(
    llm_server: LlmServer, peer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = replace(TINY, url=llm_server.address, peers=(peer,))
    run_bench("chat", options, ServingSettings(), as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["peers"][0]["server"] == {"url": f"{peer}/v1", "model": "another-model", "own": False}
    assert report["peers"][0]["metrics"]["completion_tokens"] == report["metrics"]["completion_tokens"]
    assert set(report["peers"][0]["ratios"][0]) == set(ratios(report["metrics"], report["metrics"]))


def test_a_model_that_only_transformers_runs_can_be_the_peer(
    llm_server: LlmServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "random-gpt2"
    save_random_model(folder, "gpt2")
    (folder / "chat_template.jinja").write_text("{% for message in messages %}{{ message.content[:60] }}{% endfor %}")
    with running_server(tmp_path, tmp_path / "log", model=str(folder), embedding_model="") as fallback:
        run_bench(
            "chat", replace(TINY, url=llm_server.address, peers=(fallback.base_url,)), ServingSettings(), as_json=True
        )
    report = json.loads(capsys.readouterr().out)
    [peer] = report["peers"]
    assert peer["server"]["model"] == "random-gpt2"
    assert [run["metrics"]["errors"] for run in peer["runs"]] == [0, 0]
    assert all(figures["output_tokens_per_s"] > 0 for figures in peer["ratios"])


@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - {"pack-restart"}))
def test_every_workload_runs_against_a_server_without_packs_and_metrics(
    peer: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    options = replace(TINY, url=peer, concurrency=(1,), requests=3, prefix_tokens=9000)
    run_bench(name, options, ServingSettings(), as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert (report["server"]["model"], report["runs"][0]["load"]["requests"] >= 3) == ("another-model", True)
    assert report["metrics"]["cached_tokens"] == 0
    assert "leaked_tokens" not in report["metrics"], "what the server does not tell is not made up"
    run_bench(name, options, ServingSettings(), as_json=False)
    assert "another-model" in capsys.readouterr().out


def test_refusals_are_counted_and_timed_where_they_arrive(peer: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = replace(TINY, url=peer, concurrency=(2,), requests=40, max_tokens=20)
    run_bench("w5", options, ServingSettings(), as_json=True)
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert metrics["refused"] == metrics["errors"] > 0
    assert metrics["error_messages"] == {"HTTP 429 busy": metrics["refused"]}
    assert 0 < metrics["refusal_ms"]["p50"] <= metrics["refusal_ms"]["max"]
    assert metrics["goodput_at_capacity_rps"] > 0
    assert metrics["goodput_kept"] == pytest.approx(
        metrics["goodput_rps"] / metrics["goodput_at_capacity_rps"], abs=0.01
    )


def test_ratios_are_above_one_where_ours_is_better() -> None:
    fast = summarise([Timing(text_at=[0.1, 0.2], done_at=0.2, completion_tokens=20)], 1.0, GOAL)
    slow = summarise([Timing(text_at=[0.2, 0.4], done_at=0.4, completion_tokens=10)], 1.0, GOAL)
    assert ratios(fast, slow)["ttft_p50"] == 2.0
    assert ratios(fast, slow)["output_tokens_per_s"] == 2.0
    assert ratios(slow, fast)["tbt_p50"] == 0.5
    assert ratios(fast, summarise([], 1.0, GOAL))["ttft_p50"] is None


def test_what_could_be_shared_is_told_beside_what_was() -> None:
    requests = [LoadRequest(user_message("the same start, " * 20 + end), 1) for end in ("one", "two")]
    shares = shareable(requests)
    assert shares[0] == 0
    assert 0.9 < shares[1] < 1
    cold = [Timing(text_at=[0.1], prompt_tokens=100) for _ in requests]
    assert hit_report(cold, shares)["cached_tokens"] == 0
    assert "no prefix cache" in str(hit_report(cold, shares)["cache_note"])
    warm = [cold[0], Timing(text_at=[0.1], prompt_tokens=100, cached_tokens=97)]
    assert hit_report(warm, shares)["cache_note"] == "all that could be shared was"


def test_an_answer_quotes_where_eight_words_follow_each_other_as_they_do_in_the_text() -> None:
    text = "one two three four five six seven eight nine ten"
    known = runs(text)
    assert quoted_share(text, known) == 1
    assert quoted_share("one two three four five six seven eight nine eleven", known) == pytest.approx(2 / 3)
    assert quoted_share("ten nine eight seven six five four three two one", known) == 0
    assert quoted_share("too short", known) == 0


def test_a_gap_counts_where_it_touches_the_time_that_the_long_prompt_prefills() -> None:
    stream = Timing(sent_at=100.0, text_at=[1.0, 1.1, 1.6, 1.7])
    assert gaps_within([stream], 101.2, 101.5) == pytest.approx([0.5])
    assert gaps_within([stream], 100.0, 101.05) == pytest.approx([0.1])
    assert gaps_within([stream, stream], 101.05, 101.2) == pytest.approx([0.1, 0.5] * 2)
    assert gaps_within([stream], 200.0, 300.0) == []


def test_streams_are_told_by_their_99th_percentiles_and_a_stall_by_what_exceeds_a_step() -> None:
    before, during = [0.02] * 99 + [0.04], [0.03] * 50 + [0.32]
    figures = moved(before, during)
    expected = percentile(sorted(during), 99) / percentile(sorted(before), 99)
    assert figures["tbt_p99_during_over_before"] == pytest.approx(expected, abs=0.01)
    assert figures["longest_stall_beyond_step_ms"] == pytest.approx(300)
    assert (figures["tbt_before_ms"]["max"], figures["tbt_during_prefill_ms"]["p50"]) == (40, 30)
    assert moved([], during)["longest_stall_beyond_step_ms"] is None


def test_no_figure_is_cut_where_the_terminal_is_narrow(
    llm_server: LlmServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    run_bench("chat", replace(TINY, url=llm_server.base_url), ServingSettings(), as_json=False)
    out = capsys.readouterr().out
    assert "…" not in out
    assert "errors" in out
