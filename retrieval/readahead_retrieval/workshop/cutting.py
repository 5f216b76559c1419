"""Cuts a document into chunks in another process, a slice of its pages at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from readahead_retrieval.types import Chunk, Page
from readahead_retrieval.workshop import messages
from readahead_retrieval.workshop.process import WorkshopProcess
from readahead_retrieval.workshop.workshop import Workshop

TIMEOUT_S = 120.0
"""For one slice; a page takes some milliseconds."""


class Cutting:
    """One document, under way. Raises what `WorkshopProcess.ask` raises."""

    def __init__(self, process: WorkshopProcess) -> None:
        self._process = process

    async def add(self, pages: Sequence[Page]) -> list[Chunk]:
        """The chunks that are complete with these pages, which follow those before."""
        return await self._chunks(messages.Pages([messages.PageText.of(page) for page in pages]))

    async def finish(self) -> list[Chunk]:
        """The chunks that are left."""
        return await self._chunks(messages.LastPages())

    async def _chunks(self, request: messages.Request) -> list[Chunk]:
        reply = await self._process.ask(request, TIMEOUT_S)
        assert isinstance(reply, messages.Chunks), "pages are answered by chunks"
        return reply.made()


@asynccontextmanager
async def cutting(workshop: Workshop, *, max_tokens: int, overlap_tokens: int) -> AsyncIterator[Cutting]:
    """Begins a document; see `chunk_pages`."""
    async with workshop.process() as process:
        await process.ask(messages.Cut(max_tokens, overlap_tokens), TIMEOUT_S)
        yield Cutting(process)
