"""Searches within what a filter lets through, which may be every document of a large knowledge base."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import insert

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.store import knowledge_bases, pages
from readahead_retrieval.store.codec import encode_integers, encode_spans, encode_vector
from readahead_retrieval.store.migrate import migrate
from readahead_retrieval.store.models import AttachmentRow, Base, ChunkRow, DocumentRow, FileRow, PageRow
from readahead_retrieval.store.session import Database, sqlite_url
from readahead_retrieval.types import DocumentState, Page, PageQuality, PageSpan
from tests.retrieval.library_parts import TENANT, TermEmbedder, finished, opened

DOCUMENTS, OTHERS = 1200, 5


def one(kb_id: str, number: int, text: str, vector: Vectors, model: str) -> dict[type[Base], dict[str, object]]:
    """The rows of a document of one page."""
    document_id, file_id, now = f"doc_{number}", f"file-{number}", datetime.now(UTC)
    name, sha256 = f"{number}.pdf", f"{number:064}"
    done = {"pages": 1, "pages_done": 1, "chunks": 1, "chunks_done": 1, "notes": [], "error_retryable": False}
    chunk = {"ordinal": 0, "text": text, "heading": "", "first_page": 1, "last_page": 1}
    return {
        FileRow: {
            "id": file_id,
            "tenant": TENANT,
            "name": name,
            "bytes": 1,
            "sha256": sha256,
            "purpose": "assistants",
            "created_at": now,
        },
        DocumentRow: {
            "id": document_id,
            "kb_id": kb_id,
            "file_id": file_id,
            "name": name,
            "sha256": sha256,
            "replaces": False,
            "state": DocumentState.INDEXING.value,
            "published": False,
            "created_at": now,
            "pages_unread": encode_integers([]),
            "embedding_model": model,
            **done,
        },
        AttachmentRow: {
            "kb_id": kb_id,
            "file_id": file_id,
            "document_id": document_id,
            "attributes": {"year": 2025.0 if number < DOCUMENTS else 1999.0},
            "created_at": now,
        },
        PageRow: pages.encode(document_id, [Page(1, "1", text, (), PageQuality.OK, 595.0, 842.0)])[0],
        ChunkRow: {
            "document_id": document_id,
            "spans": encode_spans([PageSpan(1, 0, len(text))]),
            "vector": encode_vector(vector),
            **chunk,
        },
    }


async def embedded(home: Path, embedder: TermEmbedder) -> str:
    """As many documents as a filter must not be bounded by, ready to be indexed. Returns the last one's id."""
    url = sqlite_url(home / "readahead.db")
    await asyncio.to_thread(migrate, url)
    database = Database(url)
    texts = [f"Room {number} belongs to department {number * 7}." for number in range(DOCUMENTS + OTHERS)]
    vectors = await embedder.embed(texts, "passage")
    rows = defaultdict[type[Base], list[dict[str, object]]](list)
    async with database.writing() as session:
        kb_id = (
            await knowledge_bases.create(
                session, TENANT, "k", allow_same_name=False, metadata={}, expires_after_days=None
            )
        ).id
        for number, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
            for table, row in one(kb_id, number, text, vector, embedder.model_id).items():
                rows[table].append(row)
        for table, held in rows.items():
            await session.execute(insert(table), held)
    await database.close()
    return f"doc_{DOCUMENTS + OTHERS - 1}"


async def test_a_filter_may_let_through_more_documents_than_anybody_would_name(tmp_path: Path) -> None:
    embedder = TermEmbedder()
    last = await embedded(tmp_path, embedder)
    async with opened(tmp_path, embedder) as library:
        await finished(library, last)
        chosen = await library.matching(TENANT, "k", lambda attributes: attributes["year"] == 2025.0)
        assert len(chosen) == DOCUMENTS
        found = await library.search(TENANT, "k", "Room 1199 department", top_k=6, document_ids=chosen)
        assert found[0].document == "1199.pdf"
        assert set(found[0].ranks) == {"dense", "lexical"}
        beyond = await library.search(TENANT, "k", f"Room {DOCUMENTS} department", top_k=6, document_ids=chosen)
        assert f"{DOCUMENTS}.pdf" not in {evidence.document for evidence in beyond}
