"""Pages as they were read: what chunks are cut from and quotes are shown on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store.codec import decode_layout, encode_layout
from readahead_retrieval.store.models import PageRow
from readahead_retrieval.types import Page, PageQuality


async def add(session: AsyncSession, document_id: str, pages: Sequence[Page]) -> None:
    await session.execute(insert(PageRow), [_values(document_id, page) for page in pages])


async def count(session: AsyncSession, document_id: str) -> int:
    return await session.scalar(select(func.count()).where(PageRow.document_id == document_id)) or 0


async def load(session: AsyncSession, document_id: str, numbers: Iterable[int] | None = None) -> list[Page]:
    """All pages, or those numbered, in order."""
    statement = select(PageRow).where(PageRow.document_id == document_id).order_by(PageRow.number)
    if numbers is not None:
        statement = statement.where(PageRow.number.in_(sorted(set(numbers))))
    return [_page(row) for row in await session.scalars(statement)]


async def clear(session: AsyncSession, document_id: str) -> None:
    await session.execute(delete(PageRow).where(PageRow.document_id == document_id))


def _values(document_id: str, page: Page) -> dict[str, object]:
    return {
        "document_id": document_id,
        "number": page.number,
        "label": page.label[:200],
        "text": page.text,
        "layout": encode_layout(page.words, page.headings),
        "quality": page.quality.value,
        "width": page.width,
        "height": page.height,
    }


def _page(row: PageRow) -> Page:
    words, headings = decode_layout(row.layout)
    return Page(
        number=row.number,
        label=row.label,
        text=row.text,
        words=words,
        quality=PageQuality(row.quality),
        width=row.width,
        height=row.height,
        headings=headings,
    )
