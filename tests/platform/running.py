"""`readahead up` as a user runs it: a process of its own, with a home and a port of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from openai import OpenAI

ROOT = Path(__file__).parents[2]
START_S = 280.0
STOP_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    """Waits for what no event tells from outside a process."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it has not come about in time"
        time.sleep(0.1)


@dataclass(frozen=True)
class RunningReadahead:
    """A service that is ready."""

    url: str
    home: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes]
    log: Path
    """What `readahead up` has printed."""
    clients: ExitStack
    """Closes what `sdk` has opened."""

    @property
    def api_key(self) -> str:
        return str(json.loads((self.home / "credentials.json").read_text(encoding="utf-8"))["api_key"])

    def sdk(self, api_key: str | None = None, *, max_retries: int = 0) -> OpenAI:
        key = api_key or self.api_key
        client = OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=max_retries, timeout=240)
        self.clients.callback(client.close)
        return client

    def cli(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`readahead …` against this service."""
        return readahead(*arguments, environment={**self.environment, **environment})

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health/ready", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def llm_pid(self) -> int:
        """The LLM server's process, the only child of the gateway that runs `serve`."""
        serving = [pid for pid in children(self.process.pid) if b"\0serve\0" in _read(pid, "cmdline")]
        return serving[0] if serving else 0

    def llm_metric(self, name: str) -> float:
        """A figure of the LLM server, which only the gateway can reach: its port and key are in its environment."""
        variables = dict(v.split(b"=", 1) for v in _read(self.llm_pid(), "environ").split(b"\0") if b"=" in v)
        url = f"http://127.0.0.1:{variables[b'READAHEAD_SERVING__PORT'].decode()}/metrics"
        key = variables[b"READAHEAD_SERVING__API_KEY"].decode()
        lines = httpx.get(url, headers={"Authorization": f"Bearer {key}"}, timeout=10).text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(STOP_S)


def readahead(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "readahead_platform.cli", *arguments],
        env=dict(environment),
        cwd=environment["READAHEAD_HOME"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def client_environment(home: Path, port: int) -> dict[str, str]:
    """Variables that steer server and client, and none of the user's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("READAHEAD_")}
    return {**kept, "READAHEAD_HOME": str(home), "READAHEAD_PORT": str(port), "OMP_NUM_THREADS": "1"}


@contextmanager
def running_readahead(home: Path, models_dir: Path, *arguments: str) -> Iterator[RunningReadahead]:
    """Starts `readahead up` and waits for its greeting; stops it as Ctrl-C does."""
    port = free_port()
    environment = {
        **client_environment(home, port),
        "READAHEAD_SERVING__MODELS_DIR": str(models_dir),
        "READAHEAD_SERVING__KERNELS_DIR": str(models_dir.parent / "kernels"),  # built once, not in each test's home
    }
    log = home / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "readahead_platform.cli", "up", *arguments],
            env=environment,
            cwd=home,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    service = RunningReadahead(f"http://127.0.0.1:{port}", home, environment, process, log, ExitStack())
    try:
        wait_until(lambda: process.poll() is not None or "is ready at" in log.read_text(encoding="utf-8"), START_S)
        assert process.poll() is None, log.read_text(encoding="utf-8")
        yield service
    finally:
        service.clients.close()
        if process.poll() is None:
            service.stop()


def children(pid: int) -> list[int]:
    """All descendants of a process."""
    try:
        direct = [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    except FileNotFoundError:
        return []
    return [*direct, *(below for child in direct for below in children(child))]


def is_alive(pid: int) -> bool:
    """Whether it still runs; a zombie does not."""
    return b") Z " not in (stat := _read(pid, "stat")) and bool(stat)


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
