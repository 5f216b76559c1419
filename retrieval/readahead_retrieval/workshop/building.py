"""Builds an index generation in another process: what our analysis, FAISS and tantivy compute holds nobody up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from readahead_retrieval.index.generation import Generation
from readahead_retrieval.store.chunks import IndexedChunk
from readahead_retrieval.workshop import messages
from readahead_retrieval.workshop.process import WorkshopProcess
from readahead_retrieval.workshop.workshop import Workshop

TIMEOUT_S = 600.0
"""For a slice."""
PUBLISH_TIMEOUT_S = 7200.0
"""A million vectors take minutes to build."""
REMOVED_SLICE = 100_000


class Building:
    """One generation, under way; as `GenerationWriter`. Raises what `WorkshopProcess.ask` raises."""

    def __init__(self, process: WorkshopProcess) -> None:
        self._process = process

    async def remove(self, chunk_ids: Sequence[int]) -> None:
        for start in range(0, len(chunk_ids), REMOVED_SLICE):
            await self._process.ask(messages.Remove(list(chunk_ids[start : start + REMOVED_SLICE])), TIMEOUT_S)

    async def add(self, chunks: Sequence[IndexedChunk]) -> None:
        entries = [(chunk.id, chunk.document_id, chunk.text) for chunk in chunks]
        await self._process.ask(messages.Add(entries, b"".join(chunk.vector for chunk in chunks)), TIMEOUT_S)

    async def publish(self) -> str:
        """Returns the manifest's SHA-256."""
        reply = await self._process.ask(messages.Publish(), PUBLISH_TIMEOUT_S)
        assert isinstance(reply, messages.Published), "publishing is answered by the manifest's sum"
        return reply.sha256


@asynccontextmanager
async def building(
    workshop: Workshop, folder: Path, kb_id: str, embedding_model: str, dimension: int, base: Generation | None
) -> AsyncIterator[Building]:
    """Begins a generation; what is not published when the block ends is left to the next sweep of the folder."""
    held = None if base is None else (str(base.folder), base.sha256)
    async with workshop.process() as process:
        await process.ask(messages.Build(str(folder), kb_id, embedding_model, dimension, held), TIMEOUT_S)
        yield Building(process)
