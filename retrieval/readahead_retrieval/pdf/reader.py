"""Reads and draws PDFs in a process of their own, which may hang, crash or be killed without harm.

A file is read page by page. A page that kills the process, or takes too long, is reported as unread and reading goes
on behind it in a fresh process; only a file that cannot be opened, or takes too long as a whole, fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from readahead_retrieval.errors import DocumentError, NotFound
from readahead_retrieval.pdf import frames
from readahead_retrieval.pdf.magic import check_magic
from readahead_retrieval.pdf.process import ChildDied, ChildTimedOut, ReaderProcess
from readahead_retrieval.types import Box, Page, PageQuality

SECONDS_FOR_A_PAGE = 20.0


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What reading one file may take."""

    timeout_s: float = 60.0
    """For the whole file; the time that the caller takes between pages does not count."""
    memory_bytes: int = 1 << 30
    max_pages: int = 20_000
    page_timeout_s: float = SECONDS_FOR_A_PAGE
    """For one page, which is then left unread."""


class PdfReader:
    """An open file. Made by `open_pdf`."""

    def __init__(self, path: Path, limits: ReadLimits, password: str | None) -> None:
        self._path = path
        self._limits = limits
        self._password = password
        self._seconds_left = limits.timeout_s
        self._child: ReaderProcess | None = None
        self.page_count = 0
        self.title = ""

    async def open(self) -> None:
        """Starts the process and waits until the file is open; raises DocumentError."""
        await self._start(first_page=1)

    async def close(self) -> None:
        """Ends the process, whatever it is doing."""
        if self._child is not None:
            await self._child.kill()
            self._child = None

    async def pages(self) -> AsyncIterator[Page]:
        """Every page in order, each once; what cannot be read comes empty, with quality `garbage`.

        Raises:
            DocumentError: `timed_out` when the file as a whole takes too long; `corrupt` or `too_large` when no page
                survived.
        """
        number = lost = lost_for_memory = 0
        while number < self.page_count:
            number += 1
            try:
                page = await self._next_page()
            except (ChildDied, ChildTimedOut) as failure:
                if self._seconds_left <= 0:
                    raise _timed_out(self._limits.timeout_s) from None
                lost += 1
                lost_for_memory += isinstance(failure, ChildDied) and failure.out_of_memory
                if lost == self.page_count:
                    raise _every_page_failed(out_of_memory=lost_for_memory == lost) from None
                page = _unread(number)
                if number < self.page_count:
                    await self._start(first_page=number + 1)
            yield page

    async def _start(self, first_page: int) -> None:
        await self.close()
        self._child = await ReaderProcess.start(
            frames.ReadRequest(
                path=str(self._path),
                password=self._password,
                memory_bytes=self._limits.memory_bytes,
                cpu_seconds=int(self._limits.timeout_s) + 2,
                max_pages=self._limits.max_pages,
                first_page=first_page,
            )
        )
        try:
            opened = await self._receive(self._seconds_left)
        except ChildTimedOut:
            raise _timed_out(self._limits.timeout_s) from None
        except ChildDied as failure:
            raise _too_large() if failure.out_of_memory else _corrupt("opening it breaks the reader") from None
        assert isinstance(opened, frames.Opened)
        self.page_count, self.title = opened.page_count, opened.title

    async def _next_page(self) -> Page:
        message = await self._receive(min(self._limits.page_timeout_s, self._seconds_left))
        if not isinstance(message, frames.PageFrame):
            raise ChildDied
        return await asyncio.to_thread(message.page)  # a dense page has thousands of words

    async def _receive(self, timeout_s: float) -> frames.Message:
        assert self._child is not None
        begun = time.monotonic()
        try:
            message = await self._child.receive(timeout_s)
        finally:
            self._seconds_left -= time.monotonic() - begun
        if isinstance(message, frames.Failed):
            raise DocumentError(message.code, message.message)
        return message


@asynccontextmanager
async def open_pdf(path: Path, limits: ReadLimits, password: str | None = None) -> AsyncIterator[PdfReader]:
    """Opens a file for reading.

    Raises:
        DocumentError: `empty_file`, `not_pdf`, `password_required` (missing or wrong), `unsupported_encryption`,
            `corrupt`, `too_large`, `timed_out`.
    """
    await asyncio.to_thread(check_magic, path)
    reader = PdfReader(path, limits, password)
    try:
        await reader.open()
        yield reader
    finally:
        await reader.close()


async def render_page(
    path: Path,
    number: int,
    *,
    limits: ReadLimits,
    password: str | None = None,
    boxes: Sequence[Box] = (),
    width: int = 1000,
) -> bytes:
    """A 1-based page as PNG, `boxes` highlighted; raises DocumentError as `open_pdf` does, and NotFound."""
    await asyncio.to_thread(check_magic, path)
    request = frames.RenderRequest(
        path=str(path),
        password=password,
        memory_bytes=limits.memory_bytes,
        cpu_seconds=int(limits.timeout_s) + 2,
        page=number,
        width=width,
        boxes=[(box.x0, box.y0, box.x1, box.y1) for box in boxes],
    )
    child = await ReaderProcess.start(request)
    try:
        message = await child.receive(limits.page_timeout_s)
    except ChildTimedOut:
        raise _timed_out(limits.page_timeout_s) from None
    except ChildDied as failure:
        raise _too_large() if failure.out_of_memory else _corrupt(f"page {number} cannot be drawn") from None
    finally:
        await child.kill()
    if isinstance(message, frames.Failed):
        raise DocumentError(message.code, message.message)
    if isinstance(message, frames.Missing):
        raise NotFound("page", str(number))
    assert isinstance(message, frames.Image)
    return message.png


def _unread(number: int) -> Page:
    return Page(number, str(number), "", (), PageQuality.GARBAGE, 0.0, 0.0)


def _timed_out(seconds: float) -> DocumentError:
    return DocumentError(
        "timed_out", f"Reading the file took longer than {seconds:g} seconds. Split it, or raise read_timeout_s."
    )


def _every_page_failed(*, out_of_memory: bool) -> DocumentError:
    return _too_large() if out_of_memory else _corrupt("none of its pages can be read")


def _corrupt(why: str) -> DocumentError:
    return DocumentError("corrupt", f"The file is damaged: {why}. Save or export it again.")


def _too_large() -> DocumentError:
    return DocumentError("too_large", "The file needs more memory than a file may take. Split it or export it again.")
