"""Pages as they were read: what chunks are cut from and quotes are shown on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from sqlalchemy import and_, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store.codec import decode_headings, decode_words, encode_headings, encode_words
from readahead_retrieval.store.models import DocumentRow, PageRow
from readahead_retrieval.types import DocumentState, Page, PageQuality

PARTITION = 64
"""Rows that are taken from the database at a time."""

Row = dict[str, object]
"""A page as it is written."""


def encode(document_id: str, pages: Sequence[Page]) -> list[Row]:
    """What `add` writes. A page has hundreds of boxes, so this is work for a thread, outside the transaction."""
    return [_values(document_id, page) for page in pages]


async def add(session: AsyncSession, rows: Sequence[Row]) -> None:
    await session.execute(insert(PageRow), rows)


async def clear(session: AsyncSession, document_id: str) -> None:
    await session.execute(delete(PageRow).where(PageRow.document_id == document_id))


async def count(session: AsyncSession, document_id: str) -> int:
    return await session.scalar(select(func.count()).where(PageRow.document_id == document_id)) or 0


async def load_text(session: AsyncSession, document_id: str, first: int = 1, last: int | None = None) -> list[Page]:
    """Pages in order, without their words: a long document's words fill memory, and chunks need none."""
    columns = (
        PageRow.number,
        PageRow.label,
        PageRow.text,
        PageRow.quality,
        PageRow.width,
        PageRow.height,
        PageRow.headings,
    )
    wanted = and_(PageRow.document_id == document_id, PageRow.number >= first)
    if last is not None:
        wanted = and_(wanted, PageRow.number <= last)
    rows = await session.stream(select(*columns).where(wanted).order_by(PageRow.number))
    return [
        Page(number, label, text, (), PageQuality(quality), width, height, decode_headings(headings))
        async for part in rows.partitions(PARTITION)  # row by row it would not let go of the event loop between
        for number, label, text, quality, width, height, headings in part
    ]


async def text_chars(session: AsyncSession, kb_id: str) -> int:
    """Characters of all searchable documents of a knowledge base, summed by the database."""
    searchable = and_(DocumentRow.kb_id == kb_id, DocumentRow.state == DocumentState.SEARCHABLE)
    chars = select(func.sum(func.length(PageRow.text))).join(DocumentRow, DocumentRow.id == PageRow.document_id)
    return await session.scalar(chars.where(searchable)) or 0


async def qualities(session: AsyncSession, document_id: str) -> set[PageQuality]:
    """Those that a document's pages have."""
    found = await session.scalars(select(PageRow.quality).where(PageRow.document_id == document_id).distinct())
    return set(map(PageQuality, found))


async def load(session: AsyncSession, document_id: str, numbers: Iterable[int]) -> dict[int, Page]:
    """The numbered pages, whole. A page has a thousand words, so they are decoded beside the event loop."""
    chosen = PageRow.number.in_(sorted(set(numbers)))
    rows = list(await session.scalars(select(PageRow).where(PageRow.document_id == document_id, chosen)))
    return await asyncio.to_thread(lambda: {row.number: _page(row) for row in rows})


async def unread(session: AsyncSession, document_id: str) -> list[int]:
    """Numbers of the pages whose text cannot be used, in order."""
    unusable = PageRow.quality.in_([PageQuality.NEEDS_OCR, PageQuality.GARBAGE])
    statement = select(PageRow.number).where(PageRow.document_id == document_id, unusable)
    return list(await session.scalars(statement.order_by(PageRow.number)))


async def recognised(session: AsyncSession, document_id: str) -> list[int]:
    """Numbers of the pages whose text was recognised on their pictures, in order."""
    theirs = and_(PageRow.document_id == document_id, PageRow.quality == PageQuality.RECOGNISED)
    return list(await session.scalars(select(PageRow.number).where(theirs).order_by(PageRow.number)))


def _values(document_id: str, page: Page) -> Row:
    return {
        "document_id": document_id,
        "number": page.number,
        "label": page.label[:200],
        "text": page.text,
        "words": encode_words(page.words),
        "headings": encode_headings(page.headings),
        "quality": page.quality.value,
        "width": page.width,
        "height": page.height,
    }


def _page(row: PageRow) -> Page:
    return Page(
        number=row.number,
        label=row.label,
        text=row.text,
        words=decode_words(row.words),
        quality=PageQuality(row.quality),
        width=row.width,
        height=row.height,
        headings=decode_headings(row.headings),
    )
