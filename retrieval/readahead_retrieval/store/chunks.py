"""Chunks and their vectors: what an index is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, delete, exists, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from readahead_retrieval.embedding import Vectors
from readahead_retrieval.errors import NotFound
from readahead_retrieval.store.codec import VECTOR_NUMBER_BYTES, decode_spans, encode_spans, encode_vector
from readahead_retrieval.store.documents import belongs_in_index
from readahead_retrieval.store.models import ChunkRow, DocumentRow, PageRow
from readahead_retrieval.types import Chunk, ChunkView, Evidence

INSERT_BATCH = 200
FIND_BATCH = 1000


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk as a search result needs it."""

    id: int
    document_id: str
    document: str
    text: str
    heading: str
    first_page: int
    last_page: int
    page_label: str

    def evidence(self, score: float, similarity: float, ranks: dict[str, int] | None = None) -> Evidence:
        """As it was found."""
        return Evidence(
            chunk_id=self.id,
            document_id=self.document_id,
            document=self.document,
            page=self.first_page,
            last_page=self.last_page,
            page_label=self.page_label,
            heading=self.heading,
            text=self.text,
            score=score,
            similarity=similarity,
            ranks=ranks or {},
        )


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    id: int
    document_id: str
    text: str
    vector: bytes


async def add(session: AsyncSession, document_id: str, chunks: Sequence[Chunk], first: int) -> None:
    """Chunks that follow one another; `first` is the first one's place in the document, from 0."""
    rows = [_values(document_id, ordinal, chunk) for ordinal, chunk in enumerate(chunks, first)]
    for start in range(0, len(rows), INSERT_BATCH):
        await session.execute(insert(ChunkRow), rows[start : start + INSERT_BATCH])


async def clear(session: AsyncSession, document_id: str) -> None:
    await session.execute(delete(ChunkRow).where(ChunkRow.document_id == document_id))


async def without_vector(session: AsyncSession, document_id: str, limit: int) -> list[tuple[int, str]]:
    """Ids and texts to embed, in order."""
    statement = select(ChunkRow.id, ChunkRow.heading, ChunkRow.text)
    statement = statement.where(ChunkRow.document_id == document_id, ChunkRow.vector.is_(None))
    rows = await session.execute(statement.order_by(ChunkRow.ordinal).limit(limit))
    return [(chunk_id, under_heading(heading, text)) for chunk_id, heading, text in rows]


async def set_vectors(session: AsyncSession, ids: Sequence[int], vectors: Vectors) -> None:
    rows = [{"id": i, "vector": encode_vector(v)} for i, v in zip(ids, vectors, strict=True)]
    await session.execute(update(ChunkRow), rows)


async def clear_vectors(session: AsyncSession, document_id: str) -> None:
    await session.execute(update(ChunkRow).where(ChunkRow.document_id == document_id).values(vector=None))


async def count_embedded(session: AsyncSession, document_id: str) -> int:
    embedded = (ChunkRow.document_id == document_id) & ChunkRow.vector.is_not(None)
    return await session.scalar(select(func.count()).where(embedded)) or 0


async def dimension(session: AsyncSession, kb_id: str, model: str) -> int:
    """Of the vectors that a model made of the knowledge base's documents, of which there is one at least."""
    statement = select(func.length(ChunkRow.vector)).join(DocumentRow).where(belongs_in_index(kb_id, model))
    size: int | None = await session.scalar(statement.limit(1))
    assert size, "what is in an index is embedded"
    return size // VECTOR_NUMBER_BYTES


async def middle(session: AsyncSession, document_id: str) -> IndexedChunk:
    """A passage from the middle of a document, where covers and tables of contents are not."""
    of_document = ChunkRow.document_id == document_id
    half = (await session.scalar(select(func.count()).where(of_document)) or 0) // 2
    columns = select(ChunkRow.id, known_as(), ChunkRow.heading, ChunkRow.text, ChunkRow.vector).join(DocumentRow)
    row = (await session.execute(columns.where(of_document, ChunkRow.ordinal == half))).one()
    return _indexed(*row)


async def ids_of(session: AsyncSession, kb_id: str, documents: Sequence[str]) -> list[int]:
    """Ids of all chunks of these documents, as far as they are the knowledge base's."""
    found: list[int] = []
    for start in range(0, len(documents), FIND_BATCH):
        chosen = (DocumentRow.kb_id == kb_id) & DocumentRow.id.in_(documents[start : start + FIND_BATCH])
        found.extend(await session.scalars(select(ChunkRow.id).join(DocumentRow).where(chosen)))
    return found


async def find(session: AsyncSession, kb_id: str, ids: Sequence[int]) -> dict[int, StoredChunk]:
    """Those of the ids that still exist in the knowledge base and are not disabled."""
    found: dict[int, StoredChunk] = {}
    for start in range(0, len(ids), FIND_BATCH):
        rows = await session.execute(_stored(kb_id).where(ChunkRow.id.in_(ids[start : start + FIND_BATCH])))
        found.update((row[0], StoredChunk(*row)) for row in rows)
    return found


async def on_page(
    session: AsyncSession, kb_id: str, page: str, document_ids: Sequence[str] | None, limit: int
) -> list[StoredChunk]:
    """Those that stand on the page with this label; in a document without such a label, on the one with this number.

    Every document is looked at: the first on each one's page, then the second ones, as far as the limit goes.
    """
    number = int(page) if page.isascii() and page.isdigit() else 0
    label, any_label = aliased(PageRow), aliased(PageRow)
    covers = (ChunkRow.first_page <= label.number) & (ChunkRow.last_page >= label.number)
    labelled = exists().where(label.document_id == ChunkRow.document_id, label.label == page, covers)
    has_label = exists().where(any_label.document_id == ChunkRow.document_id, any_label.label == page)
    numbered = (ChunkRow.first_page <= number) & (ChunkRow.last_page >= number) & ~has_label
    place = func.row_number().over(partition_by=ChunkRow.document_id, order_by=ChunkRow.ordinal)
    statement = _answering(kb_id, labelled | numbered, document_ids)
    statement = statement.order_by(place, DocumentRow.created_at, ChunkRow.document_id).limit(limit)
    found = [StoredChunk(*row) for row in await session.execute(statement)]
    documents = list(dict.fromkeys(chunk.document_id for chunk in found))
    return sorted(found, key=lambda chunk: documents.index(chunk.document_id))


async def throughout(session: AsyncSession, kb_id: str, document_ids: Sequence[str], limit: int) -> list[StoredChunk]:
    """Some from all over these documents, evenly, in reading order."""
    shown = DocumentRow.published & DocumentRow.id.in_(document_ids) & ChunkRow.disabled.is_(False)
    statement = select(ChunkRow.id).join(DocumentRow).where(DocumentRow.kb_id == kb_id, shown)
    statement = statement.order_by(DocumentRow.created_at, ChunkRow.document_id, ChunkRow.ordinal)
    ids = list(await session.scalars(statement))
    count = min(limit, len(ids))
    chosen = await find(session, kb_id, [ids[place * len(ids) // count] for place in range(count)])
    return [chosen[chunk_id] for chunk_id in ids if chunk_id in chosen]


async def holding(
    session: AsyncSession, kb_id: str, text: str, document_ids: Sequence[str] | None, limit: int
) -> list[StoredChunk]:
    """Those whose text holds the words letter by letter."""
    return await _in_order(session, kb_id, ChunkRow.text.icontains(text, autoescape=True), document_ids, limit)


async def _in_order(
    session: AsyncSession,
    kb_id: str,
    condition: ColumnElement[bool],
    document_ids: Sequence[str] | None,
    limit: int,
) -> list[StoredChunk]:
    """Of documents that answer, oldest first, in reading order."""
    statement = _answering(kb_id, condition, document_ids)
    statement = statement.order_by(DocumentRow.created_at, ChunkRow.document_id, ChunkRow.ordinal).limit(limit)
    return [StoredChunk(*row) for row in await session.execute(statement)]


def _answering(
    kb_id: str, condition: ColumnElement[bool], document_ids: Sequence[str] | None
) -> Select[int, str, str, str, str, int, int, str]:
    """Those of documents that answer, in no order."""
    statement = _stored(kb_id).where(condition, DocumentRow.published)
    return statement if document_ids is None else statement.where(DocumentRow.id.in_(document_ids))


def _stored(kb_id: str) -> Select[int, str, str, str, str, int, int, str]:
    """What searches give of a knowledge base's chunks, those that are disabled left out."""
    columns = (
        ChunkRow.id,
        ChunkRow.document_id,
        DocumentRow.name,
        ChunkRow.text,
        ChunkRow.heading,
        ChunkRow.first_page,
        ChunkRow.last_page,
        PageRow.label,
    )
    first_page = (PageRow.document_id == ChunkRow.document_id) & (PageRow.number == ChunkRow.first_page)
    chosen = select(*columns).join(DocumentRow, DocumentRow.id == ChunkRow.document_id).join(PageRow, first_page)
    return chosen.where(DocumentRow.kb_id == kb_id, ChunkRow.disabled.is_(False))


async def view(session: AsyncSession, document_id: str) -> list[ChunkView]:
    """All of a document, in reading order."""
    statement = _views().where(ChunkRow.document_id == document_id).order_by(ChunkRow.ordinal)
    return [ChunkView(*row) for row in await session.execute(statement)]


async def view_one(session: AsyncSession, document_id: str, chunk_id: int) -> ChunkView:
    """Raises `NotFound`."""
    statement = _views().where(ChunkRow.document_id == document_id, ChunkRow.id == chunk_id)
    row = (await session.execute(statement)).one_or_none()
    if row is None:
        raise NotFound("chunk", str(chunk_id))
    return ChunkView(*row)


async def set_disabled(session: AsyncSession, chunk_id: int, *, disabled: bool) -> None:
    await session.execute(update(ChunkRow).where(ChunkRow.id == chunk_id).values(disabled=disabled))


async def disable_within(
    session: AsyncSession, document_id: str, hidden: Mapping[int, Sequence[tuple[int, int]]]
) -> None:
    """Disables every chunk of a document that holds some of the text, given by page: rather too much than too little.

    Args:
        hidden: Offsets in the pages' texts.
    """
    if not hidden:
        return
    rows = await session.execute(select(ChunkRow.id, ChunkRow.spans).where(ChunkRow.document_id == document_id))
    for chunk_id, data in rows.all():
        if any(
            span.start < end and start < span.end
            for span in decode_spans(data)
            for start, end in hidden.get(span.page, ())
        ):
            await set_disabled(session, chunk_id, disabled=True)


def _views() -> Select[int, str, int, str, str, int, int, bool, bool]:
    columns = (
        ChunkRow.id,
        ChunkRow.document_id,
        ChunkRow.ordinal,
        ChunkRow.text,
        ChunkRow.heading,
        ChunkRow.first_page,
        ChunkRow.last_page,
        ChunkRow.disabled,
        ChunkRow.vector.is_not(None),
    )
    return select(*columns)


def known_as() -> ColumnElement[str]:
    """The document that an index names for a chunk: where a new reading takes its place, that whose place it is."""
    return func.coalesce(DocumentRow.rereads, DocumentRow.id)


def under_heading(heading: str, text: str) -> str:
    """The text as it is embedded and indexed."""
    return f"{heading}\n{text}" if heading else text


def _indexed(chunk_id: int, document_id: str, heading: str, text: str, vector: bytes | None) -> IndexedChunk:
    assert vector is not None, "a document is indexed when all its chunks are embedded"
    return IndexedChunk(chunk_id, document_id, under_heading(heading, text), vector)


def _values(document_id: str, ordinal: int, chunk: Chunk) -> dict[str, object]:
    return {
        "document_id": document_id,
        "ordinal": ordinal,
        "text": chunk.text,
        "heading": chunk.heading,
        "spans": encode_spans(chunk.spans),
        "first_page": chunk.first_page,
        "last_page": chunk.last_page,
    }
