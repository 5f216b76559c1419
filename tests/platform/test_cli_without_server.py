"""The command line where nothing runs: one line, an exit code, and no waiting for imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.platform.running import client_environment, free_port, readahead


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return client_environment(tmp_path, free_port())


@pytest.mark.parametrize(
    "arguments", [("kb", "list"), ("kb", "search", "x", "y"), ("ask", "samples", "why?"), ("keys", "list")]
)
def test_a_missing_server_is_one_line_that_names_the_mend(
    arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    done = readahead(*arguments, environment=environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert environment["READAHEAD_PORT"] in done.stderr
    assert "readahead up" in done.stderr


def test_with_json_an_error_is_an_object(environment: dict[str, str]) -> None:
    done = readahead("ask", "samples", "why?", "--json", environment=environment)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "no_server"


@pytest.mark.parametrize("arguments", [("ask",), ("kb", "add", "x", "/none.pdf"), ("ask", "a", "b", "--route", "x")])
def test_wrong_use_is_exit_code_2(arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    done = readahead(*arguments, environment=environment)
    assert done.returncode == 2
    assert "Usage" in done.stderr


def test_a_misspelt_variable_is_told(environment: dict[str, str]) -> None:
    done = readahead("config", environment={**environment, "READAHEAD_PROT": "1"})
    assert done.returncode == 1
    assert "READAHEAD_PORT" in done.stderr
    assert done.stderr.count("\n") == 1


def test_config_tells_values_and_origins_and_hides_secrets(environment: dict[str, str]) -> None:
    done = readahead("config", "--json", environment={**environment, "READAHEAD_API_KEY": "sk-ra-secret"})
    settings = json.loads(done.stdout)["settings"]
    assert settings["port"] == {"value": int(environment["READAHEAD_PORT"]), "origin": "READAHEAD_PORT"}
    assert settings["serving.model"]["origin"] == "default"
    assert "sk-ra-secret" not in done.stdout


def test_doctor_tells_what_is_missing(environment: dict[str, str]) -> None:
    done = readahead("doctor", "--json", environment=environment)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["python"]["ok"]
    model = checks["model smollm2-135m-instruct"]
    assert not model["ok"]
    assert "readahead models pull" in model["detail"]


def test_a_port_in_use_is_told_before_anything_starts(environment: dict[str, str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(environment["READAHEAD_PORT"])))
        taken.listen()
        done = readahead("up", environment=environment)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert environment["READAHEAD_PORT"] in done.stderr
    assert "--port" in done.stderr


def test_the_command_line_starts_without_heavy_imports() -> None:
    code = "import sys, readahead_platform.cli; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"torch", "transformers", "fastapi", "nicegui", "openai", "httpx", "sqlalchemy", "faiss"}
