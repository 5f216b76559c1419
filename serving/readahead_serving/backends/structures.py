"""Whether schemas, expressions and grammars can be followed: asked before a request comes near the engine."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import weakref
from collections import OrderedDict
from hashlib import sha256

from readahead_serving.engine.grammar import Structure, structure_of
from readahead_serving.engine.request import SamplingParams
from readahead_serving.errors import EngineUnavailable

_PROCESS = "readahead_serving.backends.structure_process"
CPU_S = 3
"""The largest structures that are of use take one second of processor time."""
_MOST_VERDICTS = 4096
_TRIES = 2
_OVER_ITS_LIMITS = (-signal.SIGXCPU, -signal.SIGABRT, -signal.SIGSEGV)
"""How the process ends over a structure: out of time, or out of memory. Any other end is tried again."""
TOO_COSTLY = "it takes too long or too much memory to compile: make it smaller or combine fewer patterns"


class StructureChecks:
    """Tries structures out in a process of its own, each once, one after the other. Use it from one event loop.

    No thread can be given up, and some structures of a thousand bytes compile for hours. The process ends itself by its
    limits, and another is started when it is needed.

    Args:
        cpu_s: Seconds of processor time for one structure.
    """

    def __init__(self, cpu_s: int = CPU_S) -> None:
        self._cpu_s = cpu_s
        self._process: subprocess.Popen[str] | None = None
        self._closed = False
        self._turn = asyncio.Lock()
        self._verdicts: OrderedDict[bytes, asyncio.Task[str | None]] = OrderedDict()

    @property
    def pid(self) -> int | None:
        """The process's id; None before the first check."""
        return None if self._process is None else self._process.pid

    async def check(self, sampling: SamplingParams) -> None:
        """Refuses what the engine could not follow.

        Raises:
            RequestRefused: The structure is malformed, too large or too costly, or uses what can't be enforced.
            EngineUnavailable: The process was ended while it worked on this.
        """
        if (structure := structure_of(sampling)) is None:
            return
        key = sha256(json.dumps(structure).encode()).digest()
        try:
            problem = await asyncio.shield(self._verdict(key, structure))
        except EngineUnavailable:
            self._verdicts.pop(key, None)
            raise
        if problem is not None:
            raise structure.refusal(problem)

    def close(self) -> None:
        """Ends the process for good; a check under way ends with `EngineUnavailable`."""
        self._closed = True
        if self._process is not None:
            _end(self._process)

    def _verdict(self, key: bytes, structure: Structure) -> asyncio.Task[str | None]:
        if key not in self._verdicts:
            self._verdicts[key] = asyncio.create_task(self._find_problem(structure))
        self._verdicts.move_to_end(key)
        if len(self._verdicts) > _MOST_VERDICTS:
            self._verdicts.popitem(last=False)
        return self._verdicts[key]

    async def _find_problem(self, structure: Structure) -> str | None:
        async with self._turn:
            return await asyncio.to_thread(self._ask, structure)

    def _ask(self, structure: Structure) -> str | None:
        for _ in range(_TRIES):
            if self._closed:
                break
            process = self._running()
            answer = _answer(process, json.dumps(structure))
            if answer:
                problem: str | None = json.loads(answer)
                return problem
            _end(process)
            if process.returncode in _OVER_ITS_LIMITS:
                return TOO_COSTLY
        raise EngineUnavailable("The schema, expression or grammar could not be tried out: try again.")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = self._start()
        return self._process

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(  # noqa: S603  no shell, and the words are our own
            [sys.executable, "-m", _PROCESS, str(self._cpu_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is the server's to hear
        )
        weakref.finalize(self, _end, process)
        return process


def _answer(process: subprocess.Popen[str], line: str) -> str:
    """The process's answer to a line; empty if it ended over it."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    except (OSError, ValueError):  # ended before, or closed meanwhile
        return ""


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()
