"""The server as a process: how it starts, refuses to start, drains and ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving.llm_server import running_server


def refused(settings: dict[str, Any]) -> str:
    """Starts a server that can't run; gives what it says."""
    command = [sys.executable, "-m", "readahead_serving", json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused({"port": port})
    assert said.startswith(f"error: Can't listen on 127.0.0.1:{port}: Address already in use.")
    assert "\n" not in said


def test_an_unknown_model_is_one_line() -> None:
    said = refused({"port": 18999, "model": "no-such-model"})
    assert said.startswith("error: ")
    assert "no-such-model" in said
    assert "\n" not in said


def test_a_damaged_model_is_told_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    said = refused({"port": 18998, "model": str(tmp_path / "broken.gguf"), "embedding_model": ""})
    assert said.splitlines()[-1].startswith("error: ")


def test_a_setting_that_makes_no_sense_is_named() -> None:
    assert refused({"port": 0}).startswith("error: setting port:")


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_streams_finish_and_ends_with_code_0(
    which: signal.Signals, minilm_path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "stderr.log"
    with running_server(minilm_path.parent, log, embedding_model="", api_key="k") as server:
        body = {
            "model": "smollm2-135m-instruct",
            "prompt": "Once",
            "max_tokens": 40,
            "stream": True,
            "ignore_eos": True,
            "temperature": 0,
        }
        headers = {"authorization": "Bearer k"}
        with httpx.stream("POST", f"{server.base_url}/completions", json=body, headers=headers, timeout=60) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("data: ")
            server.process.send_signal(which)
            rest = list(lines)
        assert rest[-2] == "data: [DONE]"
        assert server.process.wait(60) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.address}/health/live")
    assert "Traceback" not in log.read_text()


STREAM = {
    "model": "smollm2-135m-instruct",
    "prompt": "Once",
    "max_tokens": 2500,
    "stream": True,
    "ignore_eos": True,
    "temperature": 0,
}


def test_a_draining_server_refuses_new_requests_and_tells_streams_that_take_too_long(
    minilm_path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "stderr.log"
    with (
        running_server(minilm_path.parent, log, embedding_model="", drain_s=3.0) as server,
        httpx.stream("POST", f"{server.base_url}/completions", json=STREAM, timeout=60) as response,
    ):
        lines = response.iter_lines()
        assert next(lines).startswith("data: ")
        server.process.send_signal(signal.SIGTERM)
        refused = _until_refused(server.base_url)
        assert refused.headers["retry-after"] == "3"
        assert refused.json()["error"]["code"] == "engine_unavailable"
        assert httpx.get(f"{server.address}/health/ready").status_code == 503
        assert httpx.get(f"{server.address}/health/live").status_code == 200
        events = [line for line in lines if line]
        assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "engine_unavailable"
        assert server.process.wait(60) == 0
    assert "Traceback" not in log.read_text()


def _until_refused(base_url: str) -> httpx.Response:
    """The first refusal: the signal takes a moment to arrive."""
    for _ in range(200):
        response = httpx.post(f"{base_url}/completions", json=STREAM | {"stream": False, "max_tokens": 1})
        if response.status_code != 200:
            return response
    raise AssertionError("never refused")
