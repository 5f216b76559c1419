"""A real LLM server in a process of its own, as `readahead serve` runs it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readahead_serving.bench.own_server import free_port
from readahead_serving.settings import ServingSettings

STOP_S = 60


@dataclass(frozen=True)
class LlmServer:
    """A running server."""

    address: str
    """http://host:port"""
    process: subprocess.Popen[str]

    @property
    def base_url(self) -> str:
        """As OpenAI's SDK wants it."""
        return f"{self.address}/v1"


@contextlib.contextmanager
def running_server(models_dir: Path, log: Path, **settings: Any) -> Iterator[LlmServer]:
    """Starts a server and waits for the line that says it is ready; stops it at the end, however that comes."""
    small = {"dtype": "float32", "threads": 1, "kv_cache_bytes": 128 << 20, "drain_s": 20.0}
    filled = ServingSettings.model_validate(small | {"port": free_port(), "models_dir": models_dir} | settings)
    command = [sys.executable, "-m", "readahead_serving", filled.model_dump_json()]
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("LLM server ready: "), log.read_text()
            yield LlmServer(f"http://127.0.0.1:{filled.port}", process)
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
