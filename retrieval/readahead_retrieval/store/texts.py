"""What answers may be made of: the texts of documents without what a person took out of them."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store import pages, withheld
from readahead_retrieval.types import Document, DocumentText, Page


async def load(session: AsyncSession, document: Document) -> DocumentText:
    """The whole text, as packs hold it."""
    read = [page.text for page in await load_pages(session, document.id)]
    return DocumentText(document, "\n\n".join(text for text in read if text.strip()))


async def load_pages(session: AsyncSession, document_id: str, first: int = 1, last: int | None = None) -> list[Page]:
    """As `pages.load_text`, but for the text that only disabled chunks hold; a page that has any has no headings."""
    hidden = await withheld.spans(session, document_id)
    read = await pages.load_text(session, document_id, first, last)
    return [
        replace(page, text=withheld.visible(page.text, page.number, hidden), headings=())
        if page.number in hidden
        else page
        for page in read
    ]
