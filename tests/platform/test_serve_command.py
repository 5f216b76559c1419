"""`readahead serve`, the LLM server alone, as an operator runs it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import httpx

from tests.platform.running import client_environment, free_port

STREAM = {
    "model": "smollm2-135m-instruct",
    "prompt": "Once",
    "max_tokens": 40,
    "stream": True,
    "ignore_eos": True,
    "temperature": 0,
}


def test_sigterm_to_the_command_lets_a_running_stream_finish(minilm_path: Path, tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to(minilm_path.parent)
    port = free_port()
    settings = {"KV_CACHE_BYTES": str(128 << 20), "EMBEDDING_MODEL": "", "WEIGHTS": "fp32", "API_KEY": "k"}
    environment = client_environment(tmp_path, port) | {f"READAHEAD_SERVING__{k}": v for k, v in settings.items()}
    command = [sys.executable, "-m", "readahead_platform.cli", "serve", "--port", str(port)]
    log = tmp_path / "serve.log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("LLM server ready: "), log.read_text()
            url = f"http://127.0.0.1:{port}/v1/completions"
            with httpx.stream("POST", url, json=STREAM, headers={"authorization": "Bearer k"}, timeout=60) as response:
                lines = response.iter_lines()
                assert next(lines).startswith("data: ")
                process.send_signal(signal.SIGTERM)
                assert [line for line in lines if line][-1] == "data: [DONE]"
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert "Traceback" not in log.read_text()
