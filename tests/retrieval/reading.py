"""What tests of the reading process share: looking at it, and killing it."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from readahead_retrieval.types import Box
from tests.retrieval import pdf_samples as samples

Pixels = npt.NDArray[np.int16]


def children() -> list[int]:
    """Reading processes at work for this one: the children of the servers that it started to fork them."""
    return [reader for server in fork_servers() for reader in _children_of(server)]


def fork_servers() -> list[int]:
    """Processes of this one that fork readers and are not reaped; a zombie has lost its command line."""
    return [process for process in _children_of(os.getpid()) if _is_fork_server(Path(f"/proc/{process}"))]


def connections(process: int) -> set[str]:
    """Sockets and pipes that a process holds open."""
    held = (str(handle.readlink()) for handle in Path(f"/proc/{process}/fd").iterdir())
    return {name for name in held if name.startswith(("socket:", "pipe:"))}


def is_running(process: int) -> bool:
    """Neither gone nor a zombie."""
    state = _proc(Path(f"/proc/{process}/stat")).rpartition(b")")[2].split()
    return bool(state) and state[0] != b"Z"


def _children_of(process: int) -> list[int]:
    found: list[int] = []
    with suppress(FileNotFoundError):
        for task in Path(f"/proc/{process}/task").iterdir():
            found += map(int, _proc(task / "children").split())
    return found


def _is_fork_server(process: Path) -> bool:
    line = _proc(process / "cmdline")
    return process.exists() and (not line or b"readahead_retrieval.pdf" in line)


def _proc(path: Path) -> bytes:
    """What the kernel says of a task, which may end at any moment."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


async def started(count: int, processes: Callable[[], Sequence[int]] = children) -> None:
    """Returns as soon as there are `count` processes, at the least."""
    async with asyncio.timeout(10):
        while len(processes()) < count:  # noqa: ASYNC110 - a process in the kernel's list sets no event
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


def slow_to_open(path: Path) -> Path:
    """Its table of objects is lost, so that the whole of the file is searched for them."""
    whole = samples.write_pdf(path, samples.lines("Still here.")).read_bytes()
    path.write_bytes(whole.replace(b"startxref", b"% nothing\n" * 3_000_000))
    return path


def endless_pdf(path: Path, *, pages: int) -> Path:
    """The second page never ends; the others are short."""
    contents = [samples.text_content("Before."), b"/X Do", *[samples.text_content("After.")] * (pages - 2)]
    return samples.raw_pdf(path, contents, objects=samples.endless_objects(9), resources=b"/XObject << /X 108 0 R >>")


def processes_of(mark: str) -> list[int]:
    """Processes of the whole machine that have the word in their command line."""
    lines = {path: _proc(path / "cmdline") for path in Path("/proc").iterdir() if path.name.isdigit()}
    return [int(path.name) for path, line in lines.items() if mark.encode() in line.split(b"\0")]


def to_pixels(png: bytes) -> Pixels:
    """Height × width × 3."""
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.int16)


def covered(shape: tuple[int, ...], boxes: Sequence[Box], margin: int) -> npt.NDArray[np.bool_]:
    """Which pixels lie in a box, or within `margin` pixels of one."""
    height, width = shape[:2]
    mask = np.zeros((height, width), dtype=bool)
    for box in boxes:
        top, bottom = int(box.y0 * height) - margin, int(np.ceil(box.y1 * height)) + margin
        left, right = int(box.x0 * width) - margin, int(np.ceil(box.x1 * width)) + margin
        mask[max(top, 0) : bottom, max(left, 0) : right] = True
    return mask
