"""Folders of an engine's sockets: a dead server's go, a living one's stay."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from readahead_serving.engine.socket_folder import COMMANDS, make_socket_folder


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def made_long_ago() -> tuple[Path, socket.socket]:
    folder = make_socket_folder()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / COMMANDS))
    listener.listen()
    os.utime(folder, (0, 0))
    return folder, listener


def test_a_dead_servers_folder_is_removed_and_a_living_ones_is_not() -> None:
    dead, listener = made_long_ago()
    listener.close()
    alive, listener = made_long_ago()
    with listener:
        young = make_socket_folder()
        make_socket_folder()
        assert not dead.exists()
        assert alive.exists()
        assert young.exists()
        assert young.stat().st_mode & 0o777 == 0o700
