"""The LLM server's life beside the gateway: restarted when it dies, gone when the gateway is."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import openai
import pytest

from tests.platform.running import (
    START_S,
    STOP_S,
    RunningReadahead,
    children,
    client_environment,
    free_port,
    is_alive,
    readahead,
    running_readahead,
    wait_until,
)


@pytest.fixture(scope="module")
def models_dir(smollm2_path: Path, minilm_path: Path) -> Path:
    return minilm_path.parent


def ask(service: RunningReadahead) -> str:
    completion = service.sdk().chat.completions.create(
        model="smollm2-135m-instruct", messages=[{"role": "user", "content": "Say hello."}], max_tokens=4
    )
    return completion.choices[0].message.content or ""


@pytest.mark.timeout(900)
def test_a_killed_llm_server_comes_back_and_ctrl_c_leaves_nothing(tmp_path: Path, models_dir: Path) -> None:
    with running_readahead(tmp_path, models_dir, "--no-samples") as service:
        assert ask(service)
        first = service.llm_pid()
        family = [first, *children(first)]
        assert len(family) > 1
        os.kill(first, signal.SIGKILL)
        with pytest.raises(openai.InternalServerError) as raised:
            wait_until(lambda: not ask(service), 30)
        assert (raised.value.status_code, raised.value.code) == (503, "model_unavailable")
        assert not service.is_ready()
        wait_until(service.is_ready, START_S)
        assert ask(service)
        assert service.llm_pid() not in {0, first}
        wait_until(lambda: not any(is_alive(pid) for pid in family), STOP_S)
        everyone = children(service.process.pid)
        service.stop()
        assert service.process.returncode == 0
        wait_until(lambda: not any(is_alive(pid) for pid in everyone), STOP_S)


@pytest.mark.timeout(900)
def test_nothing_outlives_a_killed_gateway_and_the_next_start_finds_all(tmp_path: Path, models_dir: Path) -> None:
    with running_readahead(tmp_path, models_dir, "--no-samples") as service:
        key = service.api_key
        service.sdk().vector_stores.create(name="kept")
        everyone = children(service.process.pid)
        assert len(everyone) > 1
        service.process.kill()
        service.process.wait(STOP_S)
        wait_until(lambda: not any(is_alive(pid) for pid in everyone), STOP_S)
    with running_readahead(tmp_path, models_dir, "--no-samples") as service:
        assert service.api_key == key
        assert [store.name for store in service.sdk().vector_stores.list()] == ["kept"]


def test_a_model_that_cannot_be_had_is_one_line(tmp_path: Path) -> None:
    done = readahead("up", "--model", "no such model", environment=client_environment(tmp_path, free_port()))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "no such model" in done.stderr


def test_a_damaged_model_ends_the_start_with_the_servers_own_words(tmp_path: Path, models_dir: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF is how it begins, and that is all")
    environment = client_environment(tmp_path, free_port())
    done = readahead(
        "up", "--model", str(broken), environment={**environment, "READAHEAD_SERVING__MODELS_DIR": str(models_dir)}
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "broken.gguf" in done.stderr.strip().splitlines()[-1]
