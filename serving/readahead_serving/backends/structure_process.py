"""The process that tries structures out: `python -m readahead_serving.backends.structure_process SECONDS`.

Reads one structure a line, as JSON `[kind, text]`, and answers each with a line: the problem as JSON text, or null.
What takes more time or memory than it may ends the process instead.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from math import ceil

from readahead_serving.engine.grammar import Structure, find_problem

MEMORY_BYTES = 2 << 30
"""Of address space, most of which is libraries."""


def _allow(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(used.ru_utime + used.ru_stime) + seconds, hard))


def main(cpu_s: int) -> None:
    """Answers until standard input closes.

    Args:
        cpu_s: Seconds of processor time for one structure.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        _allow(cpu_s)
        try:
            problem = find_problem(Structure(*json.loads(line)))
        except MemoryError:
            os.abort()
        sys.stdout.write(json.dumps(problem) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
