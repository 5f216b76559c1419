"""Passages with the pages they stand on, for quotations and marks on pages."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.boxes import Line, line_boxes
from readahead_retrieval.store import pages
from readahead_retrieval.store.codec import decode_spans
from readahead_retrieval.store.models import ChunkRow, DocumentRow, KnowledgeBaseRow
from readahead_retrieval.types import Evidence, Page, PageSpan

_Spans = Mapping[tuple[str, int], tuple[PageSpan, ...]]
"""By document and chunk."""


@dataclass(frozen=True, slots=True)
class Passage:
    evidence: Evidence
    parts: tuple[tuple[Page, PageSpan], ...]


async def load_passages(session: AsyncSession, tenant: str, evidence: Sequence[Evidence]) -> list[Passage]:
    """In the order given; without what is not the tenant's and what is no longer there."""
    spans = await _spans(session, tenant, [item.chunk_id for item in evidence])
    named = {(item.document_id, item.chunk_id) for item in evidence}
    read = await _pages(session, {key: found for key, found in spans.items() if key in named})
    return [
        Passage(item, tuple((read[item.document_id][span.page], span) for span in found))
        for item in evidence
        if (found := spans.get((item.document_id, item.chunk_id)))
    ]


async def load_lines(session: AsyncSession, tenant: str, chunk_ids: Sequence[int]) -> dict[int, tuple[Line, ...]]:
    """Where chunks stand, line by line in reading order; without what is not the tenant's or no longer there."""
    spans = await _spans(session, tenant, chunk_ids)
    read = await _pages(session, spans)
    return await asyncio.to_thread(
        lambda: {
            chunk_id: tuple(
                Line(span.page, box)
                for span in found
                for box in line_boxes(read[document_id][span.page].words, span.start, span.end)
            )
            for (document_id, chunk_id), found in spans.items()
        }
    )


async def _pages(session: AsyncSession, spans: _Spans) -> dict[str, dict[int, Page]]:
    """Every page that is spanned, by document and number."""
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for (document_id, _), found in spans.items():
        wanted[document_id].update(span.page for span in found)
    return {document_id: await pages.load(session, document_id, numbers) for document_id, numbers in wanted.items()}


async def _spans(session: AsyncSession, tenant: str, chunk_ids: Sequence[int]) -> _Spans:
    columns = (
        select(ChunkRow.document_id, ChunkRow.id, ChunkRow.spans)
        .join(DocumentRow, DocumentRow.id == ChunkRow.document_id)
        .join(KnowledgeBaseRow, KnowledgeBaseRow.id == DocumentRow.kb_id)
    )
    rows = await session.execute(columns.where(KnowledgeBaseRow.tenant == tenant, ChunkRow.id.in_(chunk_ids)))
    return {(document_id, chunk_id): decode_spans(data) for document_id, chunk_id, data in rows}
