"""What a benchmark ran on: no figure means anything without it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

_CPUINFO = Path("/proc/cpuinfo")


def describe_hardware() -> dict[str, Any]:
    """This machine: processor, usable cores, memory in bytes, and whether it has matrix tiles (AMX)."""
    cpuinfo = _cpuinfo()
    return {
        "cpu": cpuinfo.get("model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "amx": "amx_tile" in cpu_flags(),
        "os": platform.platform(),
        "python": platform.python_version(),
    }


def cpu_flags() -> frozenset[str]:
    """What the processor can do, by Linux's names; empty elsewhere."""
    return frozenset(_cpuinfo().get("flags", "").split())


def _cpuinfo() -> dict[str, str]:
    """The first processor's lines on Linux; nothing elsewhere."""
    if not _CPUINFO.exists():
        return {}
    first = _CPUINFO.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}
