"""Evidence with the pages it stands on, for quotations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store import pages
from readahead_retrieval.store.codec import decode_spans
from readahead_retrieval.store.models import ChunkRow, DocumentRow, KnowledgeBaseRow
from readahead_retrieval.types import Evidence, Page, PageSpan


@dataclass(frozen=True, slots=True)
class Passage:
    evidence: Evidence
    parts: tuple[tuple[Page, PageSpan], ...]


async def load_passages(session: AsyncSession, tenant: str, evidence: Sequence[Evidence]) -> list[Passage]:
    """In the order given; without what is not the tenant's and what is no longer there."""
    spans = await _spans(session, tenant, evidence)
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for item in evidence:
        wanted[item.document_id].update(span.page for span in spans.get((item.document_id, item.chunk_id), ()))
    read = {document_id: await pages.load(session, document_id, numbers) for document_id, numbers in wanted.items()}
    return [
        Passage(item, tuple((read[item.document_id][span.page], span) for span in found))
        for item in evidence
        if (found := spans.get((item.document_id, item.chunk_id)))
    ]


async def _spans(
    session: AsyncSession, tenant: str, evidence: Sequence[Evidence]
) -> dict[tuple[str, int], tuple[PageSpan, ...]]:
    statement = (
        select(ChunkRow.document_id, ChunkRow.id, ChunkRow.spans)
        .join(DocumentRow, DocumentRow.id == ChunkRow.document_id)
        .join(KnowledgeBaseRow, KnowledgeBaseRow.id == DocumentRow.kb_id)
        .where(KnowledgeBaseRow.tenant == tenant, ChunkRow.id.in_([item.chunk_id for item in evidence]))
    )
    rows = await session.execute(statement)
    return {(document_id, chunk_id): decode_spans(data) for document_id, chunk_id, data in rows}
