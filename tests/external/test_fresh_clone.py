"""What a new user does: clone, `make up`, upload a document, ask. Nothing of this checkout's environment is used."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from openai import OpenAI

ROOT = Path(__file__).parents[2]
NO_NETWORK = {
    "PIP_NO_INDEX": "1",
    "HF_HUB_OFFLINE": "1",
    "http_proxy": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "no_proxy": "127.0.0.1,localhost",
}
"""A network that answers nothing but this machine."""

pytestmark = [
    pytest.mark.skipif(not os.environ.get("READAHEAD_TEST_FRESH"), reason="READAHEAD_TEST_FRESH is not set"),
    pytest.mark.skipif(not os.environ.get("READAHEAD_TEST_DATA"), reason="READAHEAD_TEST_DATA is not set"),
    pytest.mark.timeout(1200),
]


@dataclass(frozen=True)
class Clone:
    """A clone of the committed state, and a home and port of its own."""

    folder: Path
    home: Path
    port: int

    def environment(self, **more: str) -> dict[str, str]:
        # `make` hands its own arguments down to every `make` below it
        ours = ("READAHEAD_", "VIRTUAL_ENV", "MAKE", "MFLAGS", "ARGS", "OMP_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        return {**kept, "READAHEAD_HOME": str(self.home), "READAHEAD_PORT": str(self.port), **more}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> OpenAI:
        key = json.loads((self.home / "credentials.json").read_text(encoding="utf-8"))["api_key"]
        return OpenAI(base_url=f"{self.url}/v1", api_key=key)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    base = tmp_path_factory.mktemp("fresh")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(base / "readahead")], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return Clone(base / "readahead", base / "home", free.getsockname()[1])


@pytest.fixture(scope="module")
def made_up(clone: Clone) -> Iterator[Clone]:
    """`make up` in the background, twice: with the network, then, after a stop, without it."""
    for environment in (clone.environment(), clone.environment(**NO_NETWORK)):
        process = _make_up(clone, environment)
        if "PIP_NO_INDEX" in environment:
            yield clone
        _stop(process)


def _make_up(clone: Clone, environment: dict[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        ["make", "up"],
        cwd=clone.folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if "readahead ask samples" in line:
            assert any(clone.url in earlier for earlier in said)
            return process
    process.communicate()
    raise AssertionError("make up ended before it was ready:\n" + "".join(said[-40:]))


def _stop(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)


def test_an_uploaded_document_is_cited_by_the_right_page(made_up: Clone) -> None:
    client = made_up.client()
    document = Path(os.environ["READAHEAD_TEST_DATA"]) / "qa" / "documents" / "us-nara-strategic-plan-2022.pdf"
    store = client.vector_stores.create(name="nara")
    with document.open("rb") as pdf:
        uploaded = client.files.create(file=pdf, purpose="assistants")
    added = client.vector_stores.files.create_and_poll(uploaded.id, vector_store_id=store.id)
    assert added.status == "completed", added.last_error

    completion = client.chat.completions.create(
        model="kb/nara",
        messages=[{"role": "user", "content": "How many pages of records will NARA digitize by FY 2026?"}],
    )

    message = completion.choices[0].message
    assert message.model_extra is not None
    citations = message.model_extra["readahead"]["citations"]
    assert "500 million" in (message.content or "")
    assert {(c["document"], c["page"]) for c in citations} & {("us-nara-strategic-plan-2022.pdf", 5)}
    assert "500 million pages" in " ".join(c["quote"] for c in citations)


def test_the_command_line_answers_from_the_samples(made_up: Clone) -> None:
    question = "What torque do the cover screws need?"
    asked = subprocess.run(
        [made_up.folder / ".venv/bin/readahead", "ask", "samples", question, "--json"],
        env=made_up.environment(**NO_NETWORK),
        cwd=made_up.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout.splitlines()[-1])
    assert "0.8 Nm" in answer["answer"]
    assert answer["citations"][0]["document"] == "c40-cold-room-controller-manual.pdf"
    assert answer["citations"][0]["page"] == 1
