"""Private folders for an engine's sockets, and the end of those that a killed server has left."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

_PREFIX = "readahead-engine-"
COMMANDS, OUTPUTS = "commands", "outputs"
_YOUNG_S = 60.0
"""A folder is made a moment before its sockets are."""


def make_socket_folder() -> Path:
    """A new folder that only this user can enter; abandoned ones beside it are removed first."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, or somebody else was faster
            if _is_abandoned(folder):
                shutil.rmtree(folder)
    return Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 0700


def _is_abandoned(folder: Path) -> bool:
    """Whether it is ours and nobody listens there: the system refuses connections to a dead process's socket."""
    found = folder.lstat()
    if found.st_uid != os.getuid() or time.time() - found.st_mtime < _YOUNG_S or folder.is_symlink():
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(folder / COMMANDS))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
    return False
