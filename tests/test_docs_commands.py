"""Every command that README and docs show is run here, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform.running import ROOT, RunningReadahead, running_readahead

PAGES = sorted(["README.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md"))])
BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUN_ELSEWHERE = re.compile(r"make \w+.*|source .*|readahead (up|serve)\b.*")
"""Set-up itself: `.ci/run` and tests/external/test_fresh_clone.py run these; they cannot run within themselves."""


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def commands(page: str) -> list[str]:
    lines = [
        line.split("  #")[0].strip() for kind, text in blocks(page) if kind == "bash" for line in text.splitlines()
    ]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path, minilm_path: Path
) -> Iterator[RunningReadahead]:
    home = tmp_path_factory.mktemp("docs")
    with running_readahead(home, minilm_path.parent, "--samples", str(ROOT / "sample_docs")) as running:
        yield running


def environment(service: RunningReadahead) -> dict[str, str]:
    """What a user has after `make up` and `source .venv/bin/activate`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**service.environment, "PATH": path, "READAHEAD_URL": service.url, "READAHEAD_API_KEY": service.api_key}


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_every_shown_command_succeeds(page: str, service: RunningReadahead) -> None:
    for command in commands(page):
        if RUN_ELSEWHERE.fullmatch(command):
            continue
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=ROOT,
            env=environment(service),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        assert ran.stdout, command


def test_every_shown_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = {c.split()[1] for page in PAGES for c in commands(page) if c.startswith("make ")}
    assert {"up", "test"} <= shown
    assert shown <= targets


@pytest.mark.parametrize("page", [page for page in PAGES if any(kind == "python" for kind, _ in blocks(page))])
def test_every_shown_program_runs(page: str, service: RunningReadahead) -> None:
    for kind, program in blocks(page):
        if kind == "python":
            ran = subprocess.run(
                [sys.executable, "-c", program],
                cwd=ROOT,
                env=environment(service),
                capture_output=True,
                text=True,
                timeout=280,
                check=False,
            )
            assert ran.returncode == 0, ran.stderr
            assert "page" in ran.stdout
