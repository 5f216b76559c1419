"""The check on ratios and counts: what it measures holds here, and a broken bound is told."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from readahead_serving.bench.regress.command import tell_verdicts
from readahead_serving.bench.regress.figures import (
    Sizes,
    by_turns,
    kernel_figures,
    overload_figures,
    question_figures,
    restart_figures,
    served_figures,
    shared_over_each,
    stream_figures,
)
from readahead_serving.bench.regress.thresholds import Threshold, judge, read_thresholds
from readahead_serving.errors import BenchFailed
from readahead_serving.kernels.build import supported_levels
from readahead_serving.settings import ServingSettings
from tests.serving.llm_server import LlmServer

TINY = Sizes(
    pack_tokens=300,
    storm=8,
    storm_tokens=60,
    few=2,
    many=8,
    answer_tokens=4,
    long_tokens=100,
    streams=2,
    stream_tokens=8,
    arrivals=4,
)
AT_ANY_LOAD = ("tokens_computed_unaccounted", "cancelled_tokens_leaked", "questions_cached_share")


async def test_what_is_counted_holds_on_a_server_of_any_size_and_load(llm_server: LlmServer) -> None:
    figures = await served_figures(llm_server.base_url, ServingSettings(), TINY)
    unmeasured = {name for name, value in figures.items() if value is None}
    assert all(name.startswith(("overload", "long_prompt")) for name in unmeasured), "they are too small to be sure"
    bounds = {one.name: one for one in read_thresholds()}
    assert figures.keys() <= bounds.keys()
    for name in AT_ANY_LOAD:
        assert bounds[name].allows(figures[name]), (name, figures[name])


def test_every_bound_that_is_kept_has_a_figure_that_can_break_it(tmp_path: Path) -> None:
    figures = {
        **question_figures(questions(), questions()),
        **restart_figures(RESTART),
        **stream_figures(STREAMS),
        **overload_figures(OVERLOAD),
        "cancelled_tokens_leaked": 0.0,
        "attention_16_readers_shared_over_each": shared_over_each(),
    }
    verdicts = judge(figures, read_thresholds())
    unmeasured = {one.threshold.name for one in verdicts if one.value is None}
    assert unmeasured == {
        "linear_kernel_over_pytorch",
        "embedding_least_cosine_to_float32",
        "embedding_times_sentence_transformers",
    }
    assert kernel_figures(ServingSettings(kernels="off", kernels_dir=tmp_path)) == {}
    for bound in read_thresholds():
        assert bound.why
        assert not bound.allows(1e9) or not bound.allows(-1e9)


def test_a_broken_bound_is_named_and_fails_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    figures = {"leaked": 3.0, "speed_up": 40.0, "unseen": None}
    holding = Threshold("speed_up", "sooner than cold", at_least=20)
    leaking = Threshold("leaked", "KV tokens that nobody holds", at_most=0)
    assert tell_verdicts(judge({"speed_up": 40.0}, [holding]), as_json=False)
    assert "BREACH" not in capsys.readouterr().out
    verdicts = judge(figures, [holding, leaking, Threshold("unseen", "", at_least=0)])
    assert not tell_verdicts(verdicts, as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["breaches"] == ["leaked", "unseen"]
    assert report["metrics"] == {"speed_up": 40.0, "leaked": 3.0, "unseen": None}
    assert not tell_verdicts(verdicts, as_json=False)
    assert "BREACH" in capsys.readouterr().out


def test_bounds_are_kept_on_both_sides_and_what_was_not_measured_breaks_them() -> None:
    within = Threshold("a", "", at_least=1, at_most=2)
    assert [within.allows(value) for value in (0.9, 1, 2, 2.1, None)] == [False, True, True, False, False]
    [verdict] = judge({}, [within])
    assert not verdict.holds
    assert Threshold("a", "", at_most=2, optional=True).allows(None)
    with pytest.raises(BenchFailed, match="No threshold for b"):
        judge({"b": 1.0}, [within])


def test_waiting_for_others_is_not_counted_as_work() -> None:
    never, threads = threading.Event(), torch.get_num_threads()
    matrix = torch.randn(200, 200)

    def work() -> None:
        for _ in range(5):
            matrix @ matrix

    def kept_waiting() -> None:
        never.wait(0.02)
        work()

    assert 0.2 < by_turns(kept_waiting, work) < 5, "by the clock it is a hundred times as long"
    assert torch.get_num_threads() == threads


def test_kernels_below_the_processors_best_are_not_held_against_pytorch(tmp_path: Path) -> None:
    if supported_levels() != ["avx512", "avx2"]:
        pytest.skip("this processor has one level at most")
    assert kernel_figures(ServingSettings(kernels="avx2", kernels_dir=tmp_path)) == {}
    assert kernel_figures(ServingSettings(kernels="auto", kernels_dir=tmp_path)).keys() == {
        "linear_kernel_over_pytorch"
    }


@pytest.mark.parametrize("text", ["not toml", '[a]\nwhy = ""\nat_mots = 1', "[a]\nat_most = 1"])
def test_a_file_of_bounds_that_says_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.toml").write_text(text)
    with pytest.raises(BenchFailed, match=r"t\.toml holds no thresholds"):
        read_thresholds(tmp_path / "t.toml")


RESTART = {
    "prompt_tokens": 200,
    "cached_tokens": 100,
    "engine_computed_tokens": 200,
    "cached_tokens_of_first": 0,
    "prompt_tokens_of_first": 100,
    "after_restart_ttft_ms": 500.0,
    "before_kill_ttft_ms": 50.0,
}
STREAMS = {"tbt_p99_during_over_before": 90.0, "longest_stall_beyond_step_ms": 1900.0, "long_ttft_ms": 2000.0}
OVERLOAD = {"goodput_kept": 0.3, "refusal_ms": {"p95": 900.0}, "e2e_ms": {"p50": 1000.0}}


def test_streams_that_wait_for_a_long_prompt_and_a_queue_that_refuses_late_break_their_bounds() -> None:
    figures = {**stream_figures(STREAMS), **overload_figures(OVERLOAD)}
    assert figures["long_prompt_stall_over_its_prefill"] == 0.95
    assert figures["overload_refusal_over_answer"] == 0.9
    bounds = {one.name: one for one in read_thresholds()}
    assert [name for name, value in figures.items() if bounds[name].allows(value)] == []
    none_refused = overload_figures(OVERLOAD | {"refusal_ms": {"p95": None}})
    assert not bounds["overload_refusal_over_answer"].allows(none_refused["overload_refusal_over_answer"])


def questions(**changed: Any) -> dict[str, Any]:
    return {
        "ttft_ms": {"p50": 50.0},
        "cold_ttft_ms": 1000.0,
        "prompt_tokens": 1000,
        "cached_tokens": 900,
        "theoretical_cached_tokens": 900,
        "engine_computed_tokens": 100.0,
        "output_tokens_per_s": 40.0,
        **changed,
    }


def test_tokens_computed_beyond_what_was_told_are_found() -> None:
    holds = question_figures(questions(), questions(output_tokens_per_s=200.0))
    assert holds == {
        "pack_first_token_over_cold": 0.05,
        "questions_cached_share": 1.0,
        "tokens_computed_unaccounted": 0.0,
        "throughput_16_users_over_1": 5.0,
    }
    again = question_figures(questions(), questions(engine_computed_tokens=1100.0))
    assert again["tokens_computed_unaccounted"] == 1000
    assert restart_figures(RESTART) == {
        "restart_first_token_over_resident": 10.0,
        "restart_cached_share": 0.0,
        "restart_tokens_unaccounted": 100,
    }
