"""The command line where nothing runs: one line, an exit code, and no waiting for imports."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from typer.testing import CliRunner

from readahead_platform.cli import app
from readahead_platform.commands.build_pack import show_estimate
from readahead_platform.home import claimed_home
from tests.platform.running import ROOT, client_environment, free_port, readahead


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


@pytest.mark.parametrize(
    "arguments", [("ask",), ("kb", "add", "x"), ("kb", "remove", "x"), ("ask", "a", "b", "--route", "x")]
)
def test_wrong_use_is_exit_code_2(arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    done = readahead(*arguments, environment=environment)
    assert done.returncode == 2
    assert "Usage" in done.stderr


@pytest.mark.parametrize(
    "command",
    ["up", "serve", "ask", "bench", "eval", "doctor", "kb add", "kb remove", "kb search", "kb pack", "keys create"],
)
def test_the_help_of_a_command_shows_what_to_type(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert f"readahead {command}" in shown.stdout


def test_a_misspelt_variable_is_told(environment: dict[str, str]) -> None:
    done = readahead("config", environment={**environment, "READAHEAD_PROT": "1"})
    assert done.returncode == 1
    assert "READAHEAD_PORT" in done.stderr
    assert done.stderr.count("\n") == 1


def test_weights_that_do_not_exist_are_told_with_those_that_do(environment: dict[str, str]) -> None:
    done = readahead("serve", "--weights", "int9", environment=environment)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "--weights" in done.stderr
    assert "'int8'" in done.stderr


def test_config_tells_values_and_origins_and_hides_secrets(environment: dict[str, str]) -> None:
    done = readahead("config", "--json", environment={**environment, "READAHEAD_API_KEY": "sk-ra-secret"})
    settings = json.loads(done.stdout)["settings"]
    assert settings["port"] == {"value": int(environment["READAHEAD_PORT"]), "origin": "READAHEAD_PORT"}
    assert settings["serving.model"]["origin"] == "default"
    assert "sk-ra-secret" not in done.stdout


def test_a_dry_run_tells_size_fit_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"tokens": 5700, "window": 8192, "bytes": 131_300_000, "build_s": 3.71, "break_even_questions": 2}
    show_estimate(told)
    show_estimate({**told, "build_s": None, "break_even_questions": None})
    measured, questions, unmeasured = capsys.readouterr().out.splitlines()
    assert measured == "It fits: 5700 of the window's 8192 tokens, 131.3 MB, about 3.7 s. Nothing was built."
    assert "2 questions" in questions and "isn't measured yet" in unmeasured


def test_doctor_tells_what_is_missing(environment: dict[str, str]) -> None:
    done = readahead("doctor", "--json", environment=environment)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["python"]["ok"]
    model = checks["model smollm2-135m-instruct"]
    assert not model["ok"]
    assert "readahead models pull" in model["detail"]


def test_doctor_tells_why_pytorch_computes_alone(environment: dict[str, str]) -> None:
    done = readahead("doctor", "--json", environment={**environment, "READAHEAD_SERVING__KERNELS": "off"})
    (kernels,) = (check for check in json.loads(done.stdout)["checks"] if check["name"] == "kernels")
    assert not kernels["ok"] and not kernels["required"]
    assert kernels["detail"].startswith("off: switched off by the setting kernels")


@pytest.mark.parametrize("is_open", [True, False])
def test_a_port_in_use_is_told_before_anything_starts(is_open: bool, environment: dict[str, str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(environment["READAHEAD_PORT"])))
        if is_open:
            taken.listen()
        done = readahead("up", environment=environment)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert environment["READAHEAD_PORT"] in done.stderr
    assert "--port" in done.stderr


def test_a_home_in_use_is_told_before_anything_starts(environment: dict[str, str]) -> None:
    home = Path(environment["READAHEAD_HOME"])
    with claimed_home(home):
        done = readahead("up", environment=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Another `readahead up`" in done.stderr


@pytest.mark.parametrize("command", [("up",), ("models", "pull"), ("kb", "list"), ("doctor",)])
def test_a_home_that_is_a_file_is_told_in_one_line(command: tuple[str, ...], environment: dict[str, str]) -> None:
    place = Path(environment["READAHEAD_HOME"]) / "file"
    place.touch()
    done = run_readahead(*command, **{**environment, "READAHEAD_HOME": str(place)})
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") <= 1
    if command == ("doctor",):
        assert f"FAIL  home: {place} is not a folder".encode() in done.stdout


@pytest.mark.parametrize("arguments", [(b"kb", b"create", b"caf\xe9"), (b"ask", b"x", b"\xff?", b"--json")])
def test_arguments_that_are_not_utf8_are_wrong_use(arguments: tuple[bytes, ...], environment: dict[str, str]) -> None:
    done = run_readahead(*arguments, **environment)
    assert done.returncode == 2
    assert b"not UTF-8" in done.stdout + done.stderr
    assert (done.stdout + done.stderr).count(b"\n") == 1


def test_a_key_that_cannot_be_one_is_told_and_not_shown(environment: dict[str, str]) -> None:
    done = readahead("kb", "list", environment={**environment, "READAHEAD_API_KEY": "sk-ra-\N{SNOWMAN}secret"})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "API key" in done.stderr
    assert "secret" not in done.stderr


@pytest.fixture(scope="module")
def stranger() -> Iterator[str]:
    """A server that is not ours: it answers every path with the body that the path names."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path)
            body = path[path.index("/=") + 2 : path.index("=/")].encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("body", ["<html></html>", "[]", '{"data":null}', '{"data":[{}]}', '{"data":["x"]}', ""])
def test_another_programs_answer_is_told_in_one_line(stranger: str, body: str, environment: dict[str, str]) -> None:
    there = {**environment, "READAHEAD_URL": f"{stranger}/={quote(body)}="}
    for command in (("kb", "list"), ("ask", "x", "y")):
        done = readahead(*command, environment=there)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "Readahead server" in done.stderr


def test_an_address_without_a_scheme_is_told(environment: dict[str, str]) -> None:
    done = readahead("kb", "list", environment={**environment, "READAHEAD_URL": "localhost:8080"})
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "http://" in done.stderr


def run_readahead(*arguments: str | bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Arguments as bytes, and from a folder that exists whatever the home is."""
    return subprocess.run(
        [sys.executable, "-m", "readahead_platform.cli", *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )


def test_the_command_line_starts_without_heavy_imports() -> None:
    code = "import sys, readahead_platform.cli; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"torch", "transformers", "fastapi", "nicegui", "openai", "httpx", "sqlalchemy", "faiss"}
