"""Files in knowledge bases. Those of the same bytes share a document, which lives as long as one of them does."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Select, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.errors import NotFound
from readahead_retrieval.store import documents, rereads
from readahead_retrieval.store.documents import document_of
from readahead_retrieval.store.models import AttachmentRow, DocumentRow, FileRow, utc_now
from readahead_retrieval.store.session import insert_for
from readahead_retrieval.types import Attachment, Attributes


async def attach(
    session: AsyncSession, kb_id: str, file_id: str, document_id: str, attributes: Attributes | None
) -> None:
    """The same file again keeps its place, and its attributes unless new ones are given."""
    insert = insert_for(session)(AttachmentRow).values(
        kb_id=kb_id,
        file_id=file_id,
        document_id=document_id,
        attributes=dict(attributes or {}),
        created_at=utc_now(),
    )
    key = [AttachmentRow.kb_id, AttachmentRow.file_id]
    if attributes is None:
        await session.execute(insert.on_conflict_do_nothing(index_elements=key))
    else:
        set_ = {"attributes": insert.excluded.attributes}
        await session.execute(insert.on_conflict_do_update(index_elements=key, set_=set_))


async def list_all(session: AsyncSession, kb_id: str) -> list[Attachment]:
    """Oldest first."""
    return await _load(session, AttachmentRow.kb_id == kb_id)


async def get(session: AsyncSession, kb_id: str, file_id: str) -> Attachment:
    found = await _load(session, (AttachmentRow.kb_id == kb_id) & (AttachmentRow.file_id == file_id))
    if not found:
        raise NotFound("file", file_id)
    return found[0]


async def of_batch(session: AsyncSession, kb_id: str, file_ids: Select[str]) -> list[Attachment]:
    """Those of the chosen files that still are in the knowledge base, oldest first."""
    return await _load(session, (AttachmentRow.kb_id == kb_id) & AttachmentRow.file_id.in_(file_ids))


async def set_attributes(session: AsyncSession, kb_id: str, file_id: str, attributes: Attributes) -> None:
    chosen = (AttachmentRow.kb_id == kb_id) & (AttachmentRow.file_id == file_id)
    await session.execute(update(AttachmentRow).where(chosen).values(attributes=dict(attributes)))


async def attributes_of(session: AsyncSession, kb_id: str) -> list[tuple[str, Attributes]]:
    """Every file's document and attributes."""
    statement = select(AttachmentRow.document_id, AttachmentRow.attributes).where(AttachmentRow.kb_id == kb_id)
    return [(document_id, attributes) for document_id, attributes in await session.execute(statement)]


async def of_file(session: AsyncSession, file_id: str) -> list[Attachment]:
    """In every knowledge base."""
    return await _load(session, AttachmentRow.file_id == file_id)


async def detach(session: AsyncSession, tenant: str, gone: Sequence[Attachment]) -> list[DocumentRow]:
    """Takes files out of their knowledge bases. Returns the documents that went with their last file."""
    orphans: list[DocumentRow] = []
    for attachment in gone:
        chosen = (AttachmentRow.kb_id == attachment.kb_id) & (AttachmentRow.file_id == attachment.file_id)
        await session.execute(delete(AttachmentRow).where(chosen))
        row = await session.get(DocumentRow, attachment.document.id, populate_existing=True)
        assert row is not None, "an attachment goes with its document"
        left = await _load(session, AttachmentRow.document_id == row.id)
        if not left:
            orphans.append(row)
        elif attachment.file_id == row.file_id:
            row.file_id, row.name = left[0].file_id, left[0].name
            await session.flush()
            await rereads.follow(session, row)
    await documents.remove(session, tenant, orphans)
    return orphans


async def superseded(session: AsyncSession, kb_id: str, new: Collection[str]) -> list[Attachment]:
    """The older files that bear the name of a new document which is to take their place."""
    statement = select(DocumentRow.id, DocumentRow.name, DocumentRow.created_at)
    replacing = await session.execute(statement.where(DocumentRow.kb_id == kb_id, DocumentRow.replaces))
    found: list[Attachment] = []
    for document_id, name, created in replacing.all():
        if document_id in new:
            older = (DocumentRow.id != document_id) & (AttachmentRow.created_at <= created)
            found += await _load(session, (AttachmentRow.kb_id == kb_id) & (FileRow.name == name) & older)
    return found


async def _load(session: AsyncSession, chosen: ColumnElement[bool]) -> list[Attachment]:
    statement = (
        select(AttachmentRow, FileRow.name, FileRow.bytes, DocumentRow)
        .join(FileRow, FileRow.id == AttachmentRow.file_id)
        .join(DocumentRow, DocumentRow.id == AttachmentRow.document_id)
        .where(chosen)
        .order_by(AttachmentRow.created_at, AttachmentRow.file_id)
    )
    return [
        Attachment(row.kb_id, row.file_id, name, size, row.attributes, row.created_at, document_of(document))
        for row, name, size, document in await session.execute(statement)
    ]
