"""What tests of the reading process share: looking at it, and killing it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.retrieval import pdf_samples as samples


def children() -> list[int]:
    """Reading processes that this one started and has not reaped; a zombie has lost its command line."""
    found: list[int] = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        found += map(int, _proc(task / "children").split())
    return [process for process in found if _is_reader(Path(f"/proc/{process}"))]


def _is_reader(process: Path) -> bool:
    line = _proc(process / "cmdline")
    return process.exists() and (not line or b"readahead_retrieval.pdf" in line)


def _proc(path: Path) -> bytes:
    """What the kernel says of a task, which may end at any moment."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


async def one_is_started() -> None:
    """Returns as soon as there is a reading process."""
    async with asyncio.timeout(10):
        while not children():  # noqa: ASYNC110 - a process in the kernel's list sets no event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def killed_when_it_starts(*, times: int) -> AsyncIterator[None]:
    """Kills the first `times` reading processes that are started meanwhile, as a kernel short of memory does."""

    async def kill() -> None:
        killed: set[int] = set()
        while len(killed) < times:
            await asyncio.sleep(0)
            for process in set(children()) - killed:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed.add(process)

    task = asyncio.create_task(kill())
    try:
        yield
        assert task.done(), "fewer processes were started"
        await task
    finally:
        task.cancel()


def endless_pdf(path: Path, *, pages: int) -> Path:
    """The second page never ends; the others are short."""
    contents = [samples.text_content("Before."), b"/X Do", *[samples.text_content("After.")] * (pages - 2)]
    return samples.raw_pdf(path, contents, objects=samples.endless_objects(9), resources=b"/XObject << /X 108 0 R >>")
