"""Memory of a server and all processes beneath it."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")


def tree_bytes(root: int) -> int | None:
    """Proportional set size of a process and its descendants: pages that several share count once. None off Linux."""
    if not _PROC.exists():
        return None
    children: dict[int, list[int]] = defaultdict(list)
    for folder in _PROC.iterdir():
        if folder.name.isdecimal() and (parent := _parent(folder)) is not None:
            children[parent].append(int(folder.name))
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        total += _pss(pid)
        waiting += children[pid]
    return total


def _parent(folder: Path) -> int | None:
    with contextlib.suppress(OSError):  # it has ended meanwhile
        # after the command's name, which may hold spaces and brackets: state, parent, …
        return int((folder / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()[1])
    return None


def _pss(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text("utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0
