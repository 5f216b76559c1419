"""Reads PDFs in a process of their own, which may hang, crash or be killed without harm.

A file is read page by page. A page that kills the process, or takes too long, is reported as unread and reading goes
on behind it in a fresh process; only a file that cannot be opened, or takes too long as a whole, fails. Where somebody
else kills the process, as a kernel short of memory does, a fresh one reads the same page once more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from readahead_retrieval.errors import DocumentError
from readahead_retrieval.pdf import failures, frames
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.magic import check_magic
from readahead_retrieval.pdf.process import ChildDied, ChildTimedOut, Death, ReaderProcess
from readahead_retrieval.pdf.readers import Readers, lent
from readahead_retrieval.pdf.recognise import Recognition, with_recognised
from readahead_retrieval.types import Page, PageQuality

MAX_KILLS = 2
"""From outside, over one page; then the file fails, for now."""


class _PageLost(Exception):
    """The page breaks the process; the others may be sound."""

    def __init__(self, death: Death) -> None:
        super().__init__(death.value)
        self.death = death


class PdfReader:
    """An open file. Made by `open_pdf`."""

    def __init__(
        self,
        path: Path,
        limits: ReadLimits,
        password: str | None,
        recognition: Recognition | None,
        first_page: int,
        readers: Readers,
    ) -> None:
        self._path = path
        self._limits = limits
        self._password = password
        self._recognition = recognition
        self._first_page = first_page
        self._readers = readers
        self._seconds_left = limits.timeout_s
        self._child: ReaderProcess | None = None
        self._kills = 0
        """From outside, since the last page that was read."""
        self.page_count = 0
        self.title = ""
        self.notes: tuple[str, ...] = ()
        """What is in the file and is not read (attachments, XFA forms), in sentences for who uploaded it."""

    async def open(self) -> None:
        """Starts the process and waits until the file is open; raises DocumentError."""
        await self._start(self._first_page)

    async def close(self) -> None:
        """Ends the process, whatever it is doing."""
        if self._child is not None:
            await self._child.kill()
            self._child = None

    def pages(self) -> AsyncIterator[Page]:
        """Every page in order, each once; what cannot be read comes empty, with quality `garbage`.

        Where there is a `Recognition`, pages whose text cannot be used come with what it finds on their pictures.

        Raises:
            DocumentError: `timed_out` when the file as a whole takes too long; `corrupt` or `too_large` when no page
                survived; `interrupted` when somebody else ends the process, twice.
        """
        pages = self._text_layers()
        if self._recognition is None:
            return pages
        return with_recognised(pages, self._recognition, self._path, self._limits, self._password, self._readers)

    async def _text_layers(self) -> AsyncIterator[Page]:
        lost: list[Death] = []
        for number in range(self._first_page, self.page_count + 1):
            try:
                page = await self._page(number)
            except _PageLost as loss:
                lost.append(loss.death)
                if len(lost) == self.page_count:
                    raise _every_page_failed(lost) from None
                page = _unread(number)
                if number < self.page_count:
                    await self._start(first_page=number + 1)
            yield page

    async def _page(self, number: int) -> Page:
        """Raises _PageLost where it is the page that breaks the process."""
        while True:
            try:
                page = await self._next_page()
            except ChildDied as failure:
                if not self._may_try_again(failure.death):
                    raise self._lost(failure.death) from None
            else:
                self._kills = 0
                return page
            await self._start(first_page=number)

    def _may_try_again(self, death: Death) -> bool:
        """Once, where somebody else ended the process: the file is not to blame."""
        self._kills += death is Death.KILLED
        return death is Death.KILLED and self._kills < MAX_KILLS

    async def _next_page(self) -> Page:
        try:
            message = await self._receive(min(self._limits.page_timeout_s, self._seconds_left))
        except ChildTimedOut:
            raise self._lost(Death.BROKEN) from None
        if not isinstance(message, frames.PageFrame):
            raise ChildDied
        return await asyncio.to_thread(message.page)  # a dense page has thousands of words

    def _lost(self, death: Death) -> Exception:
        """What the end of the process over a page means: the end of the file too, or the loss of the page."""
        if death is Death.KILLED:
            return failures.interrupted()
        if death is Death.OUT_OF_TIME or self._seconds_left <= 0:
            return failures.timed_out(self._limits.timeout_s)
        return _PageLost(death)

    async def _start(self, first_page: int) -> None:
        """Starts a process and waits until the file is open."""
        while True:
            try:
                return await self._launch(first_page)
            except ChildDied as failure:
                if not self._may_try_again(failure.death):
                    raise failures.of_death(
                        failure.death, self._limits.timeout_s, "opening it breaks the reader"
                    ) from None

    async def _launch(self, first_page: int) -> None:
        await self.close()
        self._child = await self._readers.start(
            frames.ReadRequest(
                path=str(self._path),
                password=self._password,
                memory_bytes=self._limits.memory_bytes,
                cpu_seconds=self._limits.cpu_seconds,
                max_pages=self._limits.max_pages,
                first_page=first_page,
            )
        )
        try:
            opened = await self._receive(self._seconds_left)
        except ChildTimedOut:
            raise failures.timed_out(self._limits.timeout_s) from None
        if not isinstance(opened, frames.Opened):
            raise ChildDied
        self.page_count, self.title, self.notes = opened.page_count, opened.title, tuple(opened.notes)

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
async def open_pdf(
    path: Path,
    limits: ReadLimits,
    password: str | None = None,
    *,
    recognition: Recognition | None = None,
    first_page: int = 1,
    readers: Readers | None = None,
) -> AsyncIterator[PdfReader]:
    """Opens a file for reading.

    Args:
        recognition: For pages whose text layer cannot be used; without one they stay unread.
        first_page: Reading begins there; pages before it were read by an earlier run.
        readers: Start the process; without any the first one takes a tenth of a second more.

    Raises:
        DocumentError: `empty_file`, `not_pdf`, `password_required` (missing or wrong), `unsupported_encryption`,
            `corrupt`, `too_large`, `timed_out`, `interrupted`.
    """
    await asyncio.to_thread(check_magic, path)
    async with lent(readers) as starting:
        reader = PdfReader(path, limits, password, recognition, first_page, starting)
        try:
            await reader.open()
            yield reader
        finally:
            await reader.close()


def _unread(number: int) -> Page:
    return Page(number, str(number), "", (), PageQuality.GARBAGE, 0.0, 0.0)


def _every_page_failed(lost: Sequence[Death]) -> DocumentError:
    only_memory = all(death is Death.OUT_OF_MEMORY for death in lost)
    return failures.too_large() if only_memory else failures.corrupt("none of its pages can be read")
