"""The sample documents: a knowledge base to try the first question on."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, KnowledgeBase

SAMPLES_KB = "samples"
_PART_BYTES = 1 << 20


async def ingest_samples(
    library: Library, tenant: str, folder: Path, on_change: Callable[[Document], None]
) -> list[Document]:
    """Brings the folder's PDFs into the knowledge base `samples`; what is there already is left alone.

    Returns:
        The documents as they ended: searchable, or failed with a reason.
    """
    kb = await _samples_kb(library, tenant)
    uploaded = {file.sha256: file.id for file in await library.list_files(tenant)}
    queued = []
    for path, digest in await asyncio.to_thread(_pdfs, folder):
        file_id = uploaded.get(digest) or (await library.save_file(tenant, path.name, _parts(path))).id
        queued.append(await library.add_document(tenant, kb.id, file_id))
    return list(await asyncio.gather(*(_finished(library, tenant, document, on_change) for document in queued)))


def first_question(folder: Path) -> str | None:
    """A question that the samples answer, from the folder's questions.jsonl."""
    try:
        with (folder / "questions.jsonl").open(encoding="utf-8") as lines:
            return str(json.loads(next(lines))["question"])
    except (OSError, ValueError, KeyError, StopIteration):
        return None


async def _samples_kb(library: Library, tenant: str) -> KnowledgeBase:
    try:
        return await library.get_kb(tenant, SAMPLES_KB)
    except NotFound:
        return await library.create_kb(tenant, SAMPLES_KB)


async def _finished(
    library: Library, tenant: str, document: Document, on_change: Callable[[Document], None]
) -> Document:
    async for change in library.watch(tenant, document.id):
        on_change(change)
        document = change
    return document


def _pdfs(folder: Path) -> list[tuple[Path, str]]:
    """Each PDF of the folder with the hash of its bytes."""
    return [(path, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(folder.glob("*.pdf"))]


async def _parts(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while part := await asyncio.to_thread(file.read, _PART_BYTES):
            yield part
