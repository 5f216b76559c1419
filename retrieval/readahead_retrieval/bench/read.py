"""`readahead bench read`: pages of a folder's PDFs read a second, by the clock and by processor time, beside pypdf."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readahead_retrieval.bench.peers import PeerMissing, package
from readahead_retrieval.errors import DocumentError
from readahead_retrieval.ingest.pipeline import read_limits
from readahead_retrieval.pdf.reader import open_pdf
from readahead_retrieval.pdf.readers import Readers
from readahead_retrieval.settings import RetrievalSettings

_TURNS = 3
"""Of each reader, one after another; the fastest counts, so that what a neighbour took counts least."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """One reader's way through the folder."""

    pages: int
    unread: int
    """Files that it could not open or read to their end."""
    seconds: float
    processor_s: float
    """Of this process and of every one that it started, their start included."""

    def told(self) -> dict[str, Any]:
        return {
            "pages": self.pages,
            "unread_files": self.unread,
            "pages_per_s": self.pages / self.seconds,
            "pages_per_processor_s": self.pages / self.processor_s,
        }


def bench_read(
    folder: Path, settings: RetrievalSettings, told: Callable[[str, int, int], None], turns: int = _TURNS
) -> dict[str, Any]:
    """Load and metrics: ours as many files at a time as ingestion reads, ours one at a time, and pypdf, by turns.

    Scans are not recognised by either.

    Args:
        folder: Its PDFs are read.
        settings: How many at a time, and the limits of one.
        told: Called with (stage, done, total).
        turns: Of each.
    """
    files = sorted(folder.rglob("*.pdf"))
    at_a_time = settings.ingest_concurrency
    readers: dict[str, Callable[[], tuple[int, int]]] = {
        "ours": lambda: asyncio.run(_ours(files, settings, at_a_time)),
        "ours_one_at_a_time": lambda: asyncio.run(_ours(files, settings, 1)),
    }
    missing: dict[str, Any] = {}
    try:
        pypdf = package("pypdf")
        readers["pypdf"] = lambda: _pypdf(pypdf, files)
    except PeerMissing as absent:
        missing["pypdf"] = {"missing": str(absent)}
    best: dict[str, _Turn] = {}
    for turn in range(turns):
        for name, read in readers.items():
            told(name, turn, turns)
            taken = _timed(read)
            best[name] = min(best.get(name, taken), taken, key=lambda one: one.seconds)
    load = {"folder": folder.name, "documents": len(files), "files_at_a_time": at_a_time, "turns": turns}
    return {"load": load, "metrics": {name: one.told() for name, one in best.items()} | _ratios(best) | missing}


def _ratios(best: dict[str, _Turn]) -> dict[str, float]:
    if "pypdf" not in best:
        return {}
    theirs, ours, alone = (best[name].told() for name in ("pypdf", "ours", "ours_one_at_a_time"))
    return {
        "times_pypdf": ours["pages_per_s"] / theirs["pages_per_s"],
        "times_pypdf_one_at_a_time": alone["pages_per_s"] / theirs["pages_per_s"],
        "times_pypdf_by_processor_time": ours["pages_per_processor_s"] / theirs["pages_per_processor_s"],
    }


def _timed(read: Callable[[], tuple[int, int]]) -> _Turn:
    began, spent = time.perf_counter(), _processor_s()
    pages, unread = read()
    return _Turn(pages, unread, time.perf_counter() - began, _processor_s() - spent)


def _processor_s() -> float:
    """Of this process and those of its children that have ended."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


async def _ours(files: Sequence[Path], settings: RetrievalSettings, at_a_time: int) -> tuple[int, int]:
    room = asyncio.Semaphore(at_a_time)
    async with Readers() as readers:

        async def read(path: Path) -> tuple[int, int]:
            pages = 0
            try:
                async with room, open_pdf(path, read_limits(settings), readers=readers) as pdf:
                    async for _ in pdf.pages():
                        pages += 1
            except DocumentError:
                return pages, 1
            return pages, 0

        counts = await asyncio.gather(*map(read, files))
    return sum(pages for pages, _ in counts), sum(unread for _, unread in counts)


def _pypdf(pypdf: Any, files: Sequence[Path]) -> tuple[int, int]:
    pages = unread = 0
    for path in files:
        try:
            for page in pypdf.PdfReader(path).pages:
                page.extract_text()
                pages += 1
        except pypdf.errors.PyPdfError:
            unread += 1
    return pages, unread
