"""Readings that are to take a document's place: rows of their own, in no list, until they are ready.

The document serves as it was read before until then. It keeps its id, so that what cites it stays true.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store import chunks, documents, pages, withheld
from readahead_retrieval.store.models import ChunkRow, DocumentRow, PageRow, utc_now
from readahead_retrieval.types import DocumentState

_READ = ("pages", "pages_done", "pages_unread", "notes", "reader")
_CUT = ("chunks", "chunks_done", "embedding_model", "cut")
"""What the document has of its new reading: of its file, and of the pages that were read."""
_CUT_OTHERWISE_NOTE = (
    "A passage that was disabled is part of others since the document was cut anew, which are disabled with it: look "
    "whether they are to be."
)
_DISABLED_NOTE = (
    "A passage that was disabled reads otherwise since the document was read anew, and answers again: look whether it "
    "is to be disabled once more."
)


async def due(session: AsyncSession, kb_id: str, version: int, *, everything: bool) -> list[str]:
    """Ids of the documents that an older reader than `version` read, or of all, oldest first."""
    ended = DocumentRow.state.in_([DocumentState.SEARCHABLE, DocumentState.FAILED])
    statement = select(DocumentRow.id).where(DocumentRow.kb_id == kb_id, DocumentRow.rereads.is_(None), ended)
    if not everything:
        statement = statement.where(DocumentRow.reader < version)
    return list(await session.scalars(statement.order_by(DocumentRow.created_at, DocumentRow.id)))


async def begin(session: AsyncSession, row: DocumentRow) -> DocumentRow:
    """The reading that is to take the document's place: a fresh one, or the one that there is already."""
    return await _inserted(session, row)


async def begin_from_pages(session: AsyncSession, row: DocumentRow) -> DocumentRow:
    """A reading, the document's only one, that is not of the file: it cuts and embeds anew the pages there are."""
    return await _inserted(session, row, shares_pages=True, **{name: getattr(row, name) for name in _READ})


async def _inserted(session: AsyncSession, row: DocumentRow, **known: object) -> DocumentRow:
    await documents.insert_new(
        session,
        kb_id=row.kb_id,
        file_id=row.file_id,
        name=row.name,
        sha256=row.id,
        sealed_password=row.sealed_password,
        replaces=False,
        chunk_tokens=row.chunk_tokens,
        chunk_overlap_tokens=row.chunk_overlap_tokens,
        rereads=row.id,
        **known,
    )
    found = await of(session, row.id)
    assert found is not None, "it was there or has been written"
    return found


async def of(session: AsyncSession, document_id: str) -> DocumentRow | None:
    """The reading that is to take the document's place, if any."""
    return await session.scalar(select(DocumentRow).where(DocumentRow.rereads == document_id))


async def of_all(session: AsyncSession, document_ids: Sequence[str]) -> dict[str, DocumentRow]:
    """By the documents' ids."""
    found: dict[str, DocumentRow] = {}
    for start in range(0, len(document_ids), documents.ID_BATCH):
        batch = document_ids[start : start + documents.ID_BATCH]
        rows = await session.scalars(select(DocumentRow).where(DocumentRow.rereads.in_(batch)))
        found |= {row.rereads: row for row in rows if row.rereads is not None}
    return found


async def drop(session: AsyncSession, reading_id: str) -> None:
    """The document stays as it is."""
    await session.execute(delete(DocumentRow).where(DocumentRow.id == reading_id))


async def drop_of(session: AsyncSession, document_id: str) -> None:
    """As `drop`, of the document's reading, if any."""
    await session.execute(delete(DocumentRow).where(DocumentRow.rereads == document_id))


async def follow(session: AsyncSession, row: DocumentRow) -> None:
    """The document has another file's name now, of the same bytes."""
    values = {"file_id": row.file_id, "name": row.name}
    await session.execute(update(DocumentRow).where(DocumentRow.rereads == row.id).values(values))


async def take_over(session: AsyncSession, held: Sequence[str]) -> dict[str, str]:
    """Puts readings that a new index holds in their documents' places.

    Args:
        held: Ids of the documents and readings that the index was made from.

    Returns:
        The documents' ids by the readings' that were.
    """
    taken: dict[str, str] = {}
    for start in range(0, len(held), documents.ID_BATCH):
        chosen = DocumentRow.id.in_(held[start : start + documents.ID_BATCH]) & DocumentRow.rereads.is_not(None)
        for reading in (await session.scalars(select(DocumentRow).where(chosen))).all():
            assert reading.rereads is not None, "it was chosen for that"
            await _take(session, reading, reading.rereads)
            taken[reading.id] = reading.rereads
    return taken


async def _take(session: AsyncSession, reading: DocumentRow, document_id: str) -> None:
    values = await (_cut if reading.shares_pages else _read)(session, reading, document_id)
    await chunks.clear(session, document_id)
    moved = update(ChunkRow).where(ChunkRow.document_id == reading.id).values(document_id=document_id)
    await session.execute(moved)
    values |= {"state": DocumentState.SEARCHABLE.value, "finished_at": utc_now()}
    values |= {name: getattr(reading, name) for name in _CUT}
    await session.execute(update(DocumentRow).where(DocumentRow.id == document_id).values(values))
    await drop(session, reading.id)


async def _read(session: AsyncSession, reading: DocumentRow, document_id: str) -> dict[str, object]:
    """Gives the document the pages of its new reading. Returns what is to be written of it."""
    values = {name: getattr(reading, name) for name in _READ}
    if await _disable_again(session, reading.id, document_id):
        values["notes"] = [*reading.notes, _DISABLED_NOTE]
    await pages.clear(session, document_id)
    moved = update(PageRow).where(PageRow.document_id == reading.id).values(document_id=document_id)
    await session.execute(moved)
    return {**values, "revision": DocumentRow.revision + 1}


async def _cut(session: AsyncSession, reading: DocumentRow, document_id: str) -> dict[str, object]:
    """Leaves the document its pages. What is to be written of it: its text is the same, unless more is disabled."""
    await _disable_again(session, reading.id, document_id)
    hidden = await withheld.spans(session, document_id)
    await chunks.disable_within(session, reading.id, hidden)
    if await withheld.spans(session, reading.id) == hidden:
        return {}
    return {"notes": [*reading.notes, _CUT_OTHERWISE_NOTE], "revision": DocumentRow.revision + 1}


async def _disable_again(session: AsyncSession, reading_id: str, document_id: str) -> bool:
    """Disables what a person had disabled, wherever it stands word for word. Returns whether some of it does not."""
    disabled = select(ChunkRow.text).where(ChunkRow.document_id == document_id, ChunkRow.disabled)
    unwanted = {_letters(text) for text in await session.scalars(disabled)}
    if not unwanted:
        return False
    new = await session.execute(select(ChunkRow.id, ChunkRow.text).where(ChunkRow.document_id == reading_id))
    found = {chunk_id: letters for chunk_id, text in new.all() if (letters := _letters(text)) in unwanted}
    for chunk_id in found:
        await chunks.set_disabled(session, chunk_id, disabled=True)
    return bool(unwanted - set(found.values()))


def _letters(text: str) -> str:
    """A passage without what a reader may set otherwise: spaces, marks, capitals."""
    return "".join(filter(str.isalnum, text)).casefold()
