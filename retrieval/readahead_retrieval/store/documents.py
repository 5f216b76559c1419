"""Documents: a file in a knowledge base, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, delete, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import DocumentError, NotFound
from readahead_retrieval.store.codec import decode_integers, encode_integers
from readahead_retrieval.store.models import DocumentRow, KnowledgeBaseRow, utc_now
from readahead_retrieval.store.names import new_id
from readahead_retrieval.types import Document, DocumentState, KnowledgeBase, StoredFile


async def add(
    session: AsyncSession, kb: KnowledgeBase, file: StoredFile, password: str | None
) -> tuple[DocumentRow, bool]:
    """Returns the row, and whether it is new: the same bytes in the same knowledge base are the same document.

    One statement decides, so that two uploads of the same bytes at once make one document.
    """
    insert = sqlite_insert if session.get_bind().dialect.name == "sqlite" else postgresql_insert
    document_id = new_id("doc_")
    values = {
        "id": document_id,
        "kb_id": kb.id,
        "file_id": file.id,
        "name": file.name,
        "sha256": file.sha256,
        "password": password,
        "state": DocumentState.QUEUED.value,
        "published": False,
        "created_at": utc_now(),
        "pages": 0,
        "pages_done": 0,
        "pages_unread": encode_integers([]),
        "chunks": 0,
        "chunks_done": 0,
        "error_retryable": False,
    }
    await session.execute(insert(DocumentRow).values(values).on_conflict_do_nothing())
    statement = select(DocumentRow).where(DocumentRow.kb_id == kb.id, DocumentRow.sha256 == file.sha256)
    row = (await session.scalars(statement)).one()
    return row, row.id == document_id


async def list_all(session: AsyncSession, kb_id: str) -> list[Document]:
    """Oldest first."""
    statement = select(DocumentRow).where(DocumentRow.kb_id == kb_id)
    rows = await session.scalars(statement.order_by(DocumentRow.created_at, DocumentRow.id))
    return [document_of(row) for row in rows]


async def get(session: AsyncSession, tenant: str, document_id: str) -> DocumentRow:
    row = await session.scalar(_of_tenant(tenant).where(DocumentRow.id == document_id))
    if row is None:
        raise NotFound("document", document_id)
    return row


async def of_bytes(session: AsyncSession, kb_id: str, sha256: str) -> DocumentRow | None:
    statement = select(DocumentRow).where(DocumentRow.kb_id == kb_id, DocumentRow.sha256 == sha256)
    return await session.scalar(statement)


async def of_file(session: AsyncSession, file_id: str) -> list[DocumentRow]:
    return list(await session.scalars(select(DocumentRow).where(DocumentRow.file_id == file_id)))


async def remove(session: AsyncSession, document_id: str) -> None:
    """With its pages, chunks and job; an index that still holds its chunks finds no text for them."""
    await session.execute(delete(DocumentRow).where(DocumentRow.id == document_id))


async def change(session: AsyncSession, document_id: str, **values: Any) -> bool:
    """Returns False when the document was removed meanwhile.

    Taken first in a transaction it also holds the row, so that what follows may write pages and chunks.
    """
    statement = update(DocumentRow).where(DocumentRow.id == document_id).values(**values).returning(DocumentRow.id)
    return await session.scalar(statement) is not None


async def fail(session: AsyncSession, document_id: str, error: DocumentError) -> bool:
    return await change(
        session,
        document_id,
        state=DocumentState.FAILED.value,
        error_code=error.code,
        error_message=error.message,
        error_retryable=error.retryable,
    )


async def in_index(session: AsyncSession, kb_id: str, also: Sequence[str] = ()) -> list[str]:
    """Ids of the published documents of a knowledge base and of those in states `also`."""
    statement = select(DocumentRow.id).where(DocumentRow.kb_id == kb_id)
    statement = statement.where(DocumentRow.published | DocumentRow.state.in_(also))
    return list(await session.scalars(statement))


def document_of(row: DocumentRow) -> Document:
    return Document(
        id=row.id,
        kb_id=row.kb_id,
        file_id=row.file_id,
        name=row.name,
        state=DocumentState(row.state),
        created_at=row.created_at,
        pages=row.pages,
        pages_done=row.pages_done,
        pages_unread=decode_integers(row.pages_unread),
        chunks=row.chunks,
        chunks_done=row.chunks_done,
        error_code=row.error_code,
        error_message=row.error_message,
        error_retryable=row.error_retryable,
    )


def _of_tenant(tenant: str) -> Select[DocumentRow]:
    return select(DocumentRow).join(KnowledgeBaseRow).where(KnowledgeBaseRow.tenant == tenant)
