"""Passages by where they stand and by what they hold letter by letter: what a search by meaning cannot promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from readahead_retrieval.errors import QueryError
from readahead_retrieval.store import chunks, knowledge_bases
from readahead_retrieval.store.chunks import StoredChunk
from readahead_retrieval.store.passages import Passage, load_passages
from readahead_retrieval.store.session import Database
from readahead_retrieval.types import Evidence

MAX_PASSAGES = 16
MAX_TEXT_CHARS = 200


class Passages:
    """As in `Library`, what is not the tenant's raises `NotFound`. Disabled passages are nowhere."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def on_page(
        self, tenant: str, kb: str, page: str, document_ids: Sequence[str] | None = None
    ) -> list[Evidence]:
        """In reading order, of each document that has such a page; `MAX_PASSAGES` at most, of all documents alike. Of
        passages that go over several pages, what stands on this one.

        Args:
            page: As it is printed; in a document where no page is labelled so, its number, from 1.
            document_ids: Documents to look in; None for all.
        """
        async with self._database.reading() as session:
            found_kb = await knowledge_bases.get(session, tenant, kb)
            found = await chunks.on_page(session, found_kb.id, page, document_ids, MAX_PASSAGES)
            passages = await load_passages(session, tenant, [_on_purpose(chunk) for chunk in found])
        return [cut for passage in passages if (cut := _cut(passage, page)) is not None]

    async def throughout(self, tenant: str, kb: str, document_ids: Sequence[str]) -> list[Evidence]:
        """From beginning to end of these documents, evenly, `MAX_PASSAGES` at most."""
        async with self._database.reading() as session:
            found_kb = await knowledge_bases.get(session, tenant, kb)
            found = await chunks.throughout(session, found_kb.id, document_ids, MAX_PASSAGES)
        return [_on_purpose(chunk) for chunk in found]

    async def holding(
        self, tenant: str, kb: str, text: str, document_ids: Sequence[str] | None = None
    ) -> list[Evidence]:
        """In reading order, oldest document first, `MAX_PASSAGES` at most; the case of ASCII letters is no matter.

        Raises:
            QueryError: for an empty text, or one over `MAX_TEXT_CHARS`.
        """
        if not text.strip() or len(text) > MAX_TEXT_CHARS:
            raise QueryError(f"The text must hold 1 to {MAX_TEXT_CHARS} characters; it holds {len(text)}.")
        async with self._database.reading() as session:
            found_kb = await knowledge_bases.get(session, tenant, kb)
            found = await chunks.holding(session, found_kb.id, text, document_ids, MAX_PASSAGES)
        return [_on_purpose(chunk) for chunk in found]


def _on_purpose(chunk: StoredChunk) -> Evidence:
    """Not found by likeness: it is as near as can be."""
    return chunk.evidence(score=1.0, similarity=1.0)


def _cut(passage: Passage, asked: str) -> Evidence | None:
    """What of a passage stands on the page; None where nothing does."""
    if passage.evidence.page == passage.evidence.last_page:
        return passage.evidence
    labelled = [(page, span) for page, span in passage.parts if page.label == asked]
    parts = labelled or [(page, span) for page, span in passage.parts if str(page.number) == asked]
    if not parts:
        return None
    (page, _), *_ = parts
    text = "\n".join(page.text[span.start : span.end] for page, span in parts)
    return replace(passage.evidence, page=page.number, last_page=page.number, page_label=page.label, text=text)
