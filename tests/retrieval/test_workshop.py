"""What computes for long does so in processes of its own, which may die."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from readahead_retrieval.chunking import Chunker, chunk_pages
from readahead_retrieval.errors import IndexDamaged, WorkshopDied, WorkshopFailed
from readahead_retrieval.index.generation import Generation, GenerationWriter
from readahead_retrieval.store.chunks import IndexedChunk
from readahead_retrieval.tokens import EstimatedCounter
from readahead_retrieval.types import DocumentState, Heading, Page, PageQuality
from readahead_retrieval.workshop.building import building
from readahead_retrieval.workshop.cutting import cutting
from readahead_retrieval.workshop.workshop import Workshop, surviving
from tests.platform.running import children, is_alive
from tests.retrieval.library_parts import TENANT, add, opened, until


@pytest.fixture
async def workshop() -> AsyncIterator[Workshop]:
    workshop = Workshop()
    yield workshop
    await workshop.close()


def page(number: int) -> Page:
    lines = [f"Chapter {number}", *(f"Room {number}.{n} belongs to department {n}. It has a door." for n in range(9))]
    headings = (Heading(0, len(lines[0]), 1),) if number % 3 == 1 else ()
    return Page(number, str(number), "\n".join(lines), (), PageQuality.OK, 595.0, 842.0, headings)


def refuse(*_: object) -> None:
    raise AssertionError("this is no work for the service's own process")


async def test_the_service_itself_neither_cuts_documents_nor_builds_indexes(
    tmp_path: Path, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for works in (Chunker, GenerationWriter):
        monkeypatch.setattr(works, "add", refuse)
    async with opened(tmp_path) as library:
        await library.create_kb(TENANT, "k")
        document = await add(library, "k", handbook)
        assert (document.state, document.error_message) == (DocumentState.SEARCHABLE, None)
        assert [e.page for e in await library.search(TENANT, "k", "hotel nights", top_k=1)] == [2]
        working = set(_workers())
        assert working
    await until(lambda: not any(map(is_alive, working)))  # they end with the library


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_a_document_that_comes_in_slices_is_cut_as_a_whole_one(workshop: Workshop, size: int) -> None:
    pages = [page(number) for number in range(1, 12)]
    whole = chunk_pages(pages, EstimatedCounter(), max_tokens=90, overlap_tokens=20)
    async with cutting(workshop, max_tokens=90, overlap_tokens=20) as document:
        made = [await document.add(pages[start : start + size]) for start in range(0, len(pages), size)]
        made.append(await document.finish())
    assert [chunk for part in made for chunk in part] == whole
    assert sum(map(bool, made)) > 1, "chunks come while pages do"


async def test_work_whose_process_is_killed_is_done_again_in_another(workshop: Workshop) -> None:
    pids: list[int] = []

    async def work() -> int:
        async with cutting(workshop, max_tokens=90, overlap_tokens=0) as document:
            pids.append(_workers()[0])
            if len(pids) == 1:
                os.kill(pids[0], signal.SIGKILL)
            return len([*await document.add([page(1)]), *await document.finish()])

    assert await surviving(work) == len(chunk_pages([page(1)], EstimatedCounter(), max_tokens=90, overlap_tokens=0))
    assert pids[0] != pids[1]


async def test_what_kills_its_process_every_time_fails(workshop: Workshop) -> None:
    async def work() -> None:
        async with cutting(workshop, max_tokens=90, overlap_tokens=0) as document:
            os.kill(_workers()[0], signal.SIGKILL)
            await document.add([page(1)])

    with pytest.raises(WorkshopDied):
        await surviving(work)
    assert _workers() == []


async def test_a_process_that_nobody_used_for_a_while_is_ended() -> None:
    workshop = Workshop(idle_s=0.05)
    async with cutting(workshop, max_tokens=90, overlap_tokens=0) as document:
        pid = _workers()[0]
        await document.finish()
    await until(lambda: not is_alive(pid))
    async with cutting(workshop, max_tokens=90, overlap_tokens=0) as document:
        assert await document.finish() == []
    await workshop.close()


async def test_a_free_process_that_died_is_not_used_again(workshop: Workshop) -> None:
    for _ in range(2):
        async with cutting(workshop, max_tokens=90, overlap_tokens=0) as document:
            pid = _workers()[0]
            assert len([*await document.add([page(1)]), *await document.finish()]) > 0
        os.kill(pid, signal.SIGKILL)
        await until(partial(_is_gone, pid))


async def test_a_cancelled_document_leaves_no_process_at_work(workshop: Workshop) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        async with cutting(workshop, max_tokens=90, overlap_tokens=0):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    pid = _workers()[0]
    task.cancel()
    await asyncio.wait([task])
    assert not is_alive(pid)


async def test_an_index_is_built_upon_another_and_a_damaged_one_is_refused(workshop: Workshop, tmp_path: Path) -> None:
    first = await _built(workshop, tmp_path / "g1", None, {1: "pumps and valves", 2: "hotels"})
    second = await _built(workshop, tmp_path / "g2", first, {3: "oil of the gearbox"}, removed=[1])
    assert second.dense.ids.tolist() == [2, 3]
    assert [hit.chunk_id for hit in second.lexical.search("gearbox", 3)] == [3]
    (first.folder / "dense.faiss").write_bytes(b"torn")
    with pytest.raises(IndexDamaged):
        await _built(workshop, tmp_path / "g3", first, {4: "anything"})


async def test_what_cannot_be_done_is_told_with_its_reason(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WorkshopFailed, match="NotADirectoryError"):
        await _built(workshop, tmp_path / "file" / "g", None, {1: "pumps"})


def test_a_worker_ends_with_its_input() -> None:
    command = [sys.executable, "-m", "readahead_retrieval.workshop.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as worker:
        assert worker.stdin is not None
        worker.stdin.close()
        assert worker.wait(60) == 0


async def _built(
    workshop: Workshop, folder: Path, base: Generation | None, texts: dict[int, str], removed: list[int] | None = None
) -> Generation:
    vector = np.eye(1, 8, dtype="<f4").tobytes()
    async with building(workshop, folder, "kb", "model", 8, base) as index:
        await index.remove(removed or [])
        await index.add([IndexedChunk(number, "doc", text, vector) for number, text in texts.items()])
        sha256 = await index.publish()
    return Generation.open(folder, sha256)


def _is_gone(pid: int) -> bool:
    return not is_alive(pid)


def _workers() -> list[int]:
    """Processes of workshops below this one."""
    commands = {pid: Path(f"/proc/{pid}/cmdline") for pid in children(os.getpid())}
    return [pid for pid, path in commands.items() if path.exists() and b"workshop.worker" in path.read_bytes()]
