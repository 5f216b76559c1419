"""The shape of the repository, guarded."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE_ROOTS = ("serving", "retrieval", "agents", "platform")


def test_no_folder_at_the_root_shadows_a_module() -> None:
    assert not [p.parent.name for p in ROOT.glob("*/__init__.py") if p.parent.name != "tests"]


def test_the_standard_library_platform_module_wins_in_the_repository_root() -> None:
    code = "import platform; print(platform.__file__, platform.python_version())"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert not out.startswith(str(ROOT))


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {p.parent for p in (ROOT / "tests").rglob("*.py")}
    assert not [str(f) for f in folders if not (f / "__init__.py").exists()]


def test_no_source_file_grows_past_four_hundred_lines() -> None:
    files = [p for root in SOURCE_ROOTS for p in (ROOT / root).rglob("*.py")]
    assert files
    assert not [f"{p}: {n}" for p in files if (n := len(p.read_text(encoding="utf-8").splitlines())) > 400]


def test_the_changelog_names_the_version_that_is_built() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_dependency_is_pinned_exactly() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {spec.split(">")[0].split("[")[0].strip().lower().replace("_", "-") for spec in wanted}
    assert not names - pinned
