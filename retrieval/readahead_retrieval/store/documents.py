"""Documents: a file in a knowledge base, and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, exists, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from readahead_retrieval.errors import DocumentError, DocumentRemoved, NotFound
from readahead_retrieval.store.codec import decode_integers, encode_integers
from readahead_retrieval.store.models import DocumentRow, KnowledgeBaseRow, RemovedDocumentRow, utc_now
from readahead_retrieval.store.names import new_id
from readahead_retrieval.store.session import insert_for
from readahead_retrieval.types import Document, DocumentState, StoredFile

REMOVED_KEPT = 10_000
"""Removed documents of a tenant that are known as such; older ones are not found, like what never was."""
ID_BATCH = 500
"""Ids in one statement: databases bound the number of parameters."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How a file is to be taken into a knowledge base."""

    file: StoredFile
    sealed_password: bytes | None = None
    chunk_tokens: int | None = None
    chunk_overlap_tokens: int | None = None
    replaces: bool = False


async def add(session: AsyncSession, kb_id: str, wish: Wish) -> tuple[DocumentRow, bool]:
    """Returns the row, and whether it is new: the same bytes in the same knowledge base are the same document.

    One statement decides, so that two uploads of the same bytes at once make one document.
    """
    document_id = await insert_new(
        session,
        kb_id=kb_id,
        file_id=wish.file.id,
        name=wish.file.name,
        sha256=wish.file.sha256,
        sealed_password=wish.sealed_password,
        replaces=wish.replaces,
        chunk_tokens=wish.chunk_tokens,
        chunk_overlap_tokens=wish.chunk_overlap_tokens,
    )
    statement = select(DocumentRow).where(DocumentRow.kb_id == kb_id, DocumentRow.sha256 == wish.file.sha256)
    row = (await session.scalars(statement)).one()
    return row, row.id == document_id


async def insert_new(session: AsyncSession, **values: object) -> str:
    """Writes a row at its very beginning, unless there is one of its `kb_id` and `sha256`. Returns the id it gave."""
    document_id = new_id("doc_")
    beginning: dict[str, object] = {
        "id": document_id,
        "state": DocumentState.QUEUED.value,
        "published": False,
        "created_at": utc_now(),
        "pages": 0,
        "pages_done": 0,
        "pages_unread": encode_integers([]),
        "notes": [],
        "chunks": 0,
        "chunks_done": 0,
        "error_retryable": False,
    }
    await session.execute(insert_for(session)(DocumentRow).values(beginning | values).on_conflict_do_nothing())
    return document_id


async def list_all(session: AsyncSession, kb_id: str) -> list[Document]:
    """Oldest first."""
    statement = select(DocumentRow).where(DocumentRow.kb_id == kb_id, DocumentRow.rereads.is_(None))
    rows = await session.scalars(statement.order_by(DocumentRow.created_at, DocumentRow.id))
    return [document_of(row) for row in rows]


async def of_tenant(session: AsyncSession, tenant: str) -> list[Document]:
    """In every knowledge base, oldest first."""
    rows = await session.scalars(_of_tenant(tenant).order_by(DocumentRow.created_at, DocumentRow.id))
    return [document_of(row) for row in rows]


async def get(session: AsyncSession, tenant: str, document_id: str) -> DocumentRow:
    """Raises `NotFound`, and `DocumentRemoved` where it was there once."""
    row = await session.scalar(_of_tenant(tenant).where(DocumentRow.id == document_id))
    if row is not None:
        return row
    removed = await session.get(RemovedDocumentRow, document_id)
    if removed is not None and removed.tenant == tenant:
        raise DocumentRemoved(document_id, removed.name)
    raise NotFound("document", document_id)


async def existing(session: AsyncSession, tenant: str, document_ids: Sequence[str]) -> set[str]:
    """Those of the ids that are the tenant's documents."""
    found: set[str] = set()
    for start in range(0, len(document_ids), ID_BATCH):
        batch = _of_tenant(tenant).where(DocumentRow.id.in_(document_ids[start : start + ID_BATCH]))
        found.update(await session.scalars(batch.with_only_columns(DocumentRow.id)))
    return found


async def with_tenant(session: AsyncSession, document_id: str) -> tuple[DocumentRow, str] | None:
    """For the workers, which serve every tenant."""
    statement = select(DocumentRow, KnowledgeBaseRow.tenant).join(KnowledgeBaseRow)
    row = (await session.execute(statement.where(DocumentRow.id == document_id))).one_or_none()
    return None if row is None else (row[0], row[1])


async def embedding_model(session: AsyncSession, document_id: str) -> str | None:
    return await session.scalar(select(DocumentRow.embedding_model).where(DocumentRow.id == document_id))


async def of_bytes(session: AsyncSession, kb_id: str, sha256: str) -> DocumentRow | None:
    statement = select(DocumentRow).where(DocumentRow.kb_id == kb_id, DocumentRow.sha256 == sha256)
    return await session.scalar(statement)


async def remove(session: AsyncSession, tenant: str, rows: Sequence[DocumentRow]) -> None:
    """With their pages, chunks and jobs; an index that still holds their chunks finds no text for them."""
    for start in range(0, len(rows), ID_BATCH):
        batch = rows[start : start + ID_BATCH]
        gone = [{"id": row.id, "tenant": tenant, "name": row.name, "removed_at": utc_now()} for row in batch]
        await session.execute(insert_for(session)(RemovedDocumentRow).on_conflict_do_nothing(), gone)
        ids = [row.id for row in batch]
        await session.execute(delete(DocumentRow).where(or_(DocumentRow.id.in_(ids), DocumentRow.rereads.in_(ids))))
    if rows:
        await _forget_oldest_removed(session, tenant)


async def _forget_oldest_removed(session: AsyncSession, tenant: str) -> None:
    removed = RemovedDocumentRow
    of_tenant = select(removed.id).where(removed.tenant == tenant)
    surplus = of_tenant.order_by(removed.removed_at.desc(), removed.id).offset(REMOVED_KEPT)
    await session.execute(delete(removed).where(removed.id.in_(surplus)))


async def text_changed(session: AsyncSession, document_id: str) -> None:
    """Chunks were disabled or enabled: packs of it no longer say what it says."""
    more = {"revision": DocumentRow.revision + 1}
    await session.execute(update(DocumentRow).where(DocumentRow.id == document_id).values(more))


async def rows_of(session: AsyncSession, kb_id: str) -> list[DocumentRow]:
    """All, also readings that are to take a document's place."""
    return list(await session.scalars(select(DocumentRow).where(DocumentRow.kb_id == kb_id)))


async def change(session: AsyncSession, document_id: str, **values: Any) -> bool:
    """Returns False when the document was removed or cancelled meanwhile.

    Taken first in a transaction it also holds the row, so that what follows may write pages and chunks.
    """
    underway = (DocumentRow.id == document_id) & (DocumentRow.state != DocumentState.CANCELLED)
    statement = update(DocumentRow).where(underway).values(**values).returning(DocumentRow.id)
    return await session.scalar(statement) is not None


async def add_embedded(session: AsyncSession, document_id: str, chunks: int) -> bool:
    return await change(session, document_id, chunks_done=DocumentRow.chunks_done + chunks)


async def fail(session: AsyncSession, document_id: str, error: DocumentError) -> bool:
    return await change(
        session,
        document_id,
        state=DocumentState.FAILED.value,
        error_code=error.code,
        error_message=error.message,
        error_retryable=error.retryable,
        finished_at=utc_now(),
    )


async def cancel(session: AsyncSession, document_id: str) -> None:
    """Its pages and chunks stay, so that a retry goes on where it stood."""
    values = {"state": DocumentState.CANCELLED.value, "finished_at": utc_now()}
    await session.execute(update(DocumentRow).where(DocumentRow.id == document_id).values(values))


def belongs_in_index(kb_id: str, model: str) -> ColumnElement[bool]:
    """Searchable already, or waiting to be; its vectors made by `model`; and no new reading of it is ready."""
    ready = DocumentRow.state.in_([DocumentState.SEARCHABLE, DocumentState.INDEXING])
    again = aliased(DocumentRow)
    is_new = and_(again.rereads == DocumentRow.id, again.state == DocumentState.INDEXING)
    read_anew = exists().where(is_new, again.embedding_model == model)
    return and_(DocumentRow.kb_id == kb_id, DocumentRow.embedding_model == model, ready, ~read_anew)


async def for_index(session: AsyncSession, kb_id: str, model: str) -> dict[str, DocumentState]:
    """Ids of the documents that belong in the index, with their states."""
    statement = select(DocumentRow.id, DocumentRow.state).where(belongs_in_index(kb_id, model))
    return {document_id: DocumentState(state) for document_id, state in await session.execute(statement)}


async def set_published(session: AsyncSession, kb_id: str, ids: Sequence[str]) -> None:
    """These, and no others, are in the index."""
    await session.execute(update(DocumentRow).where(DocumentRow.kb_id == kb_id).values(published=False))
    for start in range(0, len(ids), ID_BATCH):
        chosen = DocumentRow.id.in_(ids[start : start + ID_BATCH])
        await session.execute(update(DocumentRow).where(chosen).values(published=True))
        proved = chosen & (DocumentRow.state == DocumentState.INDEXING)
        values = {"state": DocumentState.SEARCHABLE.value, "finished_at": utc_now()}
        await session.execute(update(DocumentRow).where(proved).values(values))


async def any_published(session: AsyncSession, kb_id: str) -> bool:
    return bool(await session.scalar(select(exists().where(DocumentRow.kb_id == kb_id, DocumentRow.published))))


async def serving_model(session: AsyncSession, kb_id: str, model: str) -> str:
    """The model whose vectors the next index holds: `model`, but while documents that answer have none of it yet, the
    one that theirs are of. Half a knowledge base is no index: the other half would vanish from answers."""
    again = aliased(DocumentRow)
    is_ready = and_(again.rereads == DocumentRow.id, again.state == DocumentState.INDEXING)
    behind = select(DocumentRow.embedding_model).where(
        DocumentRow.kb_id == kb_id,
        DocumentRow.published,
        DocumentRow.state == DocumentState.SEARCHABLE,
        DocumentRow.embedding_model != model,
        ~exists().where(is_ready, again.embedding_model == model),
    )
    return await session.scalar(behind.limit(1)) or model


async def requeue(session: AsyncSession, document_id: str, **values: Any) -> None:
    """Back to the start of the line; what is done stays done."""
    fresh = {
        "state": DocumentState.QUEUED.value,
        "error_code": None,
        "error_message": None,
        "error_retryable": False,
        "finished_at": None,
    }
    await session.execute(update(DocumentRow).where(DocumentRow.id == document_id).values({**fresh, **values}))


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
        notes=tuple(row.notes),
        chunks=row.chunks,
        chunks_done=row.chunks_done,
        error_code=row.error_code,
        error_message=row.error_message,
        error_retryable=row.error_retryable,
        chunk_tokens=row.chunk_tokens,
        chunk_overlap_tokens=row.chunk_overlap_tokens,
        started_at=row.started_at,
        finished_at=row.finished_at,
        revision=row.revision,
        reader=row.reader,
    )


def _of_tenant(tenant: str) -> Select[DocumentRow]:
    theirs = select(DocumentRow).join(KnowledgeBaseRow).where(KnowledgeBaseRow.tenant == tenant)
    return theirs.where(DocumentRow.rereads.is_(None))
