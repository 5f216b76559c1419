"""Whole texts of documents, as packs hold them."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store import pages, withheld
from readahead_retrieval.types import Document, DocumentText


async def load(session: AsyncSession, document: Document) -> DocumentText:
    """Without what a person took out of answers by disabling chunks."""
    hidden = await withheld.spans(session, document.id)
    read = [withheld.visible(page.text, page.number, hidden) for page in await pages.load_text(session, document.id)]
    return DocumentText(document, "\n\n".join(text for text in read if text.strip()))
