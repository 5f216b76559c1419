"""The home of a service: one owner, and nobody else may read it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from readahead_platform.errors import StartError
from readahead_platform.home import claimed_home


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_second_owner_is_refused_until_the_first_has_gone(tmp_path: Path) -> None:
    with claimed_home(tmp_path), pytest.raises(StartError, match=f"Another.*{tmp_path}"), claimed_home(tmp_path):
        pass
    with claimed_home(tmp_path):
        pass


def test_what_was_readable_for_others_is_closed_and_models_stay_shared(tmp_path: Path) -> None:
    for folder in ("files", "indexes", "packs", "logs", "models"):
        (tmp_path / folder).mkdir(mode=0o755)
    (tmp_path / "readahead.db").touch(mode=0o644)
    with claimed_home(tmp_path):
        (tmp_path / "new").touch()
        subprocess.run([sys.executable, "-c", f"open({str(tmp_path / 'childs')!r}, 'w')"], check=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert {modes[name] for name in ("files", "indexes", "packs", "logs")} == {0o700}
    assert {modes[name] for name in ("readahead.db", "new", "childs", "up.lock")} == {0o600}
    assert modes["models"] == 0o755


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_home_that_is_no_folder_is_named_with_the_mend(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="file is not a folder; set READAHEAD_HOME"), claimed_home(tmp_path / place):
        pass
