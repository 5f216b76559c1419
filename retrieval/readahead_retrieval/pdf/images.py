"""Page images on demand: each drawn by a process of its own, a bounded number at a time, and kept for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from readahead_retrieval.errors import Busy, DocumentError, NotFound
from readahead_retrieval.pdf import failures, frames
from readahead_retrieval.pdf.limits import ReadLimits
from readahead_retrieval.pdf.magic import check_magic
from readahead_retrieval.pdf.process import ChildDied, ChildTimedOut, Death
from readahead_retrieval.pdf.readers import Readers, lent
from readahead_retrieval.types import Box

AT_A_TIME = 2
MAX_WAITING = 32
KEPT_BYTES = 32 << 20
MAX_BOXES = 2_000


@dataclass(frozen=True, slots=True)
class PageImage:
    """What is to be drawn."""

    path: Path
    number: int
    """1-based physical page."""
    boxes: tuple[Box, ...] = ()
    """Highlighted."""
    width: int = 1000
    """In pixels."""
    password: str | None = None


async def render_page(image: PageImage, limits: ReadLimits, readers: Readers | None = None) -> bytes:
    """A page as PNG.

    Args:
        readers: Start the process; without any it takes a tenth of a second more.

    Raises:
        DocumentError: As `open_pdf` does.
        NotFound: The file has no such page.
    """
    # Checked here too: what the message to the process cannot hold is no page of any file.
    if not 1 <= image.number <= limits.max_pages:
        raise _no_such_page(image.number)
    await asyncio.to_thread(check_magic, image.path)
    try:
        async with lent(readers) as starting:
            message = await _drawn(image, limits, starting)
    except ChildDied as failure:
        raise failures.of_death(failure.death, limits.timeout_s, f"page {image.number} cannot be drawn") from None
    if isinstance(message, frames.Failed):
        raise DocumentError(message.code, message.message)
    if isinstance(message, frames.Missing):
        raise _no_such_page(image.number)
    assert isinstance(message, frames.Image)
    return message.png


class PageImages:
    """Draws for everybody: `at_a_time` at once, `max_waiting` in line, `KEPT_BYTES` of the last ones kept."""

    def __init__(
        self,
        limits: ReadLimits,
        readers: Readers | None = None,
        *,
        at_a_time: int = AT_A_TIME,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self._limits = limits
        self._readers = readers
        self._max_waiting = max_waiting
        self._free = asyncio.Semaphore(at_a_time)
        self._waiting = 0
        self._kept: OrderedDict[PageImage, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._drawing: WeakValueDictionary[PageImage, asyncio.Lock] = WeakValueDictionary()

    async def get(self, image: PageImage) -> bytes:
        """The page as PNG; the path must name the same bytes for ever.

        Raises:
            DocumentError, NotFound: As `render_page` does.
            Busy: Too many are in line.
        """
        if image in self._kept:
            self._kept.move_to_end(image)
            return self._kept[image]
        async with self._drawing.setdefault(image, asyncio.Lock()):
            if image not in self._kept:  # somebody ahead may have wanted the same
                async with self._turn():
                    self._keep(image, await render_page(image, self._limits, self._readers))
            return self._kept[image]

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._free.locked() and self._waiting >= self._max_waiting:
            raise Busy(f"{self._max_waiting} page images are waiting to be drawn already. Ask again in a moment.")
        self._waiting += 1
        try:
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()

    def _keep(self, image: PageImage, png: bytes) -> None:
        self._kept[image] = png
        self._kept_bytes += len(png)
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self._kept_bytes -= len(dropped)


def _request(image: PageImage, limits: ReadLimits) -> frames.RenderRequest:
    return frames.RenderRequest(
        path=str(image.path),
        password=image.password,
        memory_bytes=limits.memory_bytes,
        cpu_seconds=limits.cpu_seconds,
        page=image.number,
        width=image.width,
        boxes=[(box.x0, box.y0, box.x1, box.y1) for box in image.boxes[:MAX_BOXES]],
    )


async def _drawn(image: PageImage, limits: ReadLimits, readers: Readers) -> frames.Message:
    try:
        return await _answer(image, limits, readers)
    except ChildDied as failure:
        if failure.death is not Death.KILLED:
            raise
    return await _answer(image, limits, readers)  # somebody else ended it; the page is not to blame


async def _answer(image: PageImage, limits: ReadLimits, readers: Readers) -> frames.Message:
    child = await readers.start(_request(image, limits))
    try:
        return await child.receive(limits.page_timeout_s)
    except ChildTimedOut:
        raise failures.timed_out(limits.page_timeout_s) from None
    finally:
        await child.kill()


def _no_such_page(number: int) -> NotFound:
    return NotFound("page", str(number) if number.bit_length() <= 64 else "of that number")
