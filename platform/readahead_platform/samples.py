"""The sample documents: a knowledge base to try the first question on."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from readahead_retrieval.errors import NotFound
from readahead_retrieval.library import Library
from readahead_retrieval.types import Document, DocumentState, KnowledgeBase

SAMPLES_KB = "samples"
_PART_BYTES = 1 << 20


async def ingest_samples(
    library: Library, tenant: str, folder: Path, on_change: Callable[[Document], None]
) -> list[Document]:
    """Brings the folder's PDFs into the knowledge base `samples`; what is there already is left alone.

    A sample that has changed since replaces its old version once it is searchable.

    Returns:
        The documents as they ended: searchable, or failed with a reason.
    """
    kb = await _samples_kb(library, tenant)
    uploaded = {file.sha256: file.id for file in await library.files.list(tenant)}
    queued = []
    for path, digest in await asyncio.to_thread(_pdfs, folder):
        file_id = uploaded.get(digest) or (await library.files.save(tenant, path.name, _parts(path))).id
        queued.append(await library.add_document(tenant, kb.id, file_id))
    documents = await asyncio.gather(*(_finished(library, tenant, document, on_change) for document in queued))
    await _remove_replaced(library, tenant, kb, documents)
    return documents


async def _remove_replaced(library: Library, tenant: str, kb: KnowledgeBase, documents: Sequence[Document]) -> None:
    """Takes out the old version of each document that has a searchable new one."""
    ids = {document.id for document in documents}
    replaced = {document.name for document in documents if document.state is DocumentState.SEARCHABLE}
    for old in await library.list_documents(tenant, kb.id):
        if old.name in replaced and old.id not in ids:
            await library.remove_document(tenant, old.id)


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
