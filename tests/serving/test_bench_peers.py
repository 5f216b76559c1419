"""Our server beside others: who takes part, what is told of those that do not, and the table."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from readahead_serving.bench.own_server import Launch, free_port, launched
from readahead_serving.bench.peers.checkpoint import write_checkpoint
from readahead_serving.bench.peers.command import PeersOptions, run_peers
from readahead_serving.bench.peers.comparison import FIGURES, as_table, compare
from readahead_serving.bench.peers.contest import OURS, ROUNDS, Round, Standing
from readahead_serving.bench.peers.llama_cpp import build_switches
from readahead_serving.bench.peers.workshop import Workshop
from readahead_serving.errors import BenchFailed, PeerAbsent
from readahead_serving.model.metadata import load_config, load_tokenizer
from readahead_serving.settings import ServingSettings
from tests.serving import peer_server

SMALL = (Round("chat", 1, requests=1), Round("w1", 2, requests=2, prefix_tokens=200))


class StartedPeer:
    """Another maker's server that starts as told."""

    def __init__(self, name: str, *command: str) -> None:
        self.name = name
        self._port = free_port()
        self._command = command or (sys.executable, str(Path(peer_server.__file__)), "4", str(self._port))

    async def prepare(self, workshop: Workshop, model: Path) -> Launch:
        await workshop.make_once("built", ["v1"], lambda: workshop.run(sys.executable, "-c", ""))
        return Launch(
            self._command,
            f"http://127.0.0.1:{self._port}",
            ready_path="/v1/models",
            log=workshop.folder / "server.log",
        )


class MissingPeer:
    """One that can't be built."""

    name = "missing"

    async def prepare(self, workshop: Workshop, model: Path) -> Launch:
        async def fail() -> None:
            await workshop.run(sys.executable, "-c", "print('no compiler'); raise SystemExit(3)")

        await workshop.make_once("build", ["v1"], fail)
        raise AssertionError


def test_one_command_compares_who_is_there_and_names_who_is_not(
    tmp_path: Path, smollm2_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peers = (StartedPeer("another"), MissingPeer(), StartedPeer("fallen", sys.executable, "-c", "raise SystemExit(4)"))
    options = PeersOptions(folder=tmp_path, peers=peers, rounds=SMALL)
    settings = ServingSettings(model=str(smollm2_path), dtype="float32", threads=1, kv_cache_bytes=128 << 20)
    run_peers(options, settings, smollm2_path, as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert list(report["servers"]) == [OURS, "another"]
    assert all(server["start_s"] > 0 for server in report["servers"].values())
    assert "no compiler" in report["absent"]["missing"]
    assert "ended with code 4" in report["absent"]["fallen"]
    assert [one["workload"] for one in report["rounds"]] == ["chat", "w1"]
    rows = {row["figure"]: row for row in report["rows"]}
    chat = rows["1 short chat, tokens/s"]
    assert set(chat["values"]) == {OURS, "another"}
    assert chat["best_peer"] == "another"
    assert chat["ratio"] == pytest.approx(chat["values"][OURS] / chat["values"]["another"], abs=0.01)
    assert report["rounds"][1]["metrics"][OURS]["cached_tokens"] > 0, "our own server answers from a pack"
    table = as_table(report)
    assert table.row_count == len(report["rows"]) + 1


def test_another_kind_of_model_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(BenchFailed, match="no GGUF file"):
        run_peers(PeersOptions(folder=tmp_path), ServingSettings(), tmp_path, as_json=True)


async def test_a_server_that_ends_midway_takes_no_further_part(tmp_path: Path) -> None:
    port = free_port()
    program = (sys.executable, str(Path(peer_server.__file__)), "4", str(port))
    launch = Launch(program, f"http://127.0.0.1:{port}", tmp_path / "server.log", "/v1/models")
    async with launched(launch) as ours, launched(launch) as other:
        present = Standing({OURS: ours, "other": other})
        present.leave_out_ended()
        assert list(present.servers) == [OURS, "other"]
        other.process.kill()
        await other.process.wait()
        present.leave_out_ended()
        assert list(present.servers) == [OURS]
        assert "ended during the comparison" in present.absent["other"]


def level(rate: float, cold_ms: float | None = None, errors: int = 0) -> dict[str, Any]:
    return {"output_tokens_per_s": rate, "ttft_ms": {"p50": 50.0}, "cold_ttft_ms": cold_ms, "errors": errors}


def test_ratios_are_over_the_best_peer_that_answered_everything() -> None:
    played = [
        (Round("chat", 1), {OURS: level(60.0), "one": level(40.0), "two": level(80.0, errors=1)}),
        (Round("w1", 8), {OURS: level(100.0, 2000.0), "one": level(50.0, 4000.0), "two": level(25.0, 1000.0)}),
        (Round("w1", 16), {OURS: level(200.0, 3000.0), "one": level(50.0, 8000.0), "two": level(90.0)}),
    ]
    rows = {row["figure"]: row for row in compare(played)}
    chat = rows["1 short chat, tokens/s"]
    assert (chat["best_peer"], chat["ratio"], chat["failed"]) == ("one", 1.5, {"two": 1})
    cold = rows["long text cold, first token in ms"]
    assert cold["values"] == {OURS: 2500.0, "one": 6000.0, "two": 1000.0}
    assert (cold["best_peer"], cold["ratio"]) == ("two", 0.4)
    assert rows["long text cached, 16 users, tokens/s"]["ratio"] == pytest.approx(2.22)
    assert "16 short chats, tokens/s" not in rows, "what was not played has no row"


def test_a_figure_without_a_peer_has_no_ratio() -> None:
    [row] = compare([(Round("quote", 1), {OURS: level(60.0)})])
    assert (row["best_peer"], row["ratio"]) == (None, None)


def test_every_figure_is_looked_up_where_some_round_measures_it() -> None:
    played = {(one.workload, one.users) for one in ROUNDS}
    assert all((figure.workload, users) in played for figure in FIGURES for users in figure.users)


async def test_what_was_made_is_made_again_only_by_another_recipe_or_after_a_failure(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path / "peer", print)
    made: list[int] = []

    async def make() -> None:
        made.append(len(made))
        if len(made) == 1:
            raise PeerAbsent("the disk is full")

    with pytest.raises(PeerAbsent):
        await workshop.make_once("build", ["v1"], make)
    for recipe, times in (("v1", 2), ("v1", 2), ("v2", 3), ("v2", 3)):
        await workshop.make_once("build", [recipe], make)
        assert len(made) == times


async def test_a_failing_step_says_what_failed_and_where_the_rest_stands(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, print)
    with pytest.raises(PeerAbsent, match=r"ended with code 2: linker: no space .*install\.log"):
        await workshop.run(sys.executable, "-c", "print('many'); print('linker: no space'); raise SystemExit(2)")
    with pytest.raises(PeerAbsent, match="No such file"):
        await workshop.run(str(tmp_path / "cmake"))


def test_a_build_uses_what_the_processor_has_and_never_its_tiles() -> None:
    switches = build_switches({"avx", "avx2", "fma", "avx512f", "amx_tile"})
    assert switches["GGML_AVX512"] == switches["GGML_AVX2"] == "ON"
    assert switches["GGML_AVX512_BF16"] == switches["GGML_NATIVE"] == "OFF"
    assert not any("AMX" in name for name in switches)
    with pytest.raises(PeerAbsent):
        build_switches(())


def test_a_checkpoint_holds_the_weights_and_the_tokenizer_of_the_file_it_was_made_of(
    tmp_path: Path, smollm2_path: Path, hf_smollm2: Any
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    write_checkpoint(smollm2_path, tmp_path)
    written = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16).state_dict()
    for name, tensor in hf_smollm2.state_dict().items():
        assert torch.equal(written[name], tensor.to(torch.bfloat16)), name
    config, original = load_config(tmp_path), load_config(smollm2_path)
    assert (config.rope_theta, config.max_positions, config.eos_token_ids) == (
        original.rope_theta,
        original.max_positions,
        original.eos_token_ids,
    )
    messages = [{"role": "user", "content": "Wie spät ist es? 123 안녕"}]
    theirs = AutoTokenizer.from_pretrained(tmp_path).apply_chat_template(messages, add_generation_prompt=True)
    assert list(theirs["input_ids"]) == load_tokenizer(smollm2_path).encode_chat(messages)
