"""What a person took out of answers: the text that only disabled chunks hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from readahead_retrieval.store.codec import decode_spans
from readahead_retrieval.store.models import ChunkRow

Span = tuple[int, int]


async def spans(session: AsyncSession, document_id: str) -> dict[int, list[Span]]:
    """By page, in order. What an enabled chunk repeats of a disabled one is found by searches, and so is not here."""
    of_document = ChunkRow.document_id == document_id
    if not await session.scalar(select(exists().where(of_document, ChunkRow.disabled))):
        return {}
    hidden: defaultdict[int, list[Span]] = defaultdict(list)
    shown: defaultdict[int, list[Span]] = defaultdict(list)
    for data, disabled in await session.execute(select(ChunkRow.spans, ChunkRow.disabled).where(of_document)):
        for span in decode_spans(data):
            (hidden if disabled else shown)[span.page].append((span.start, span.end))
    return {
        page: [part for span in sorted(found) for part in _without(span, shown[page])] for page, found in hidden.items()
    }


def visible(text: str, page: int, withheld: Mapping[int, Sequence[Span]]) -> str:
    """A page's text without what is withheld of it."""
    return "".join(text[start:end] for start, end in _without((0, len(text)), withheld.get(page, ())))


def _without(span: Span, others: Iterable[Span]) -> list[Span]:
    """What is left of a span, in order."""
    position, end = span
    left: list[Span] = []
    for start, stop in sorted(others):
        if start >= end or stop <= position:
            continue
        if start > position:
            left.append((position, start))
        position = max(position, stop)
    return [*left, (position, end)] if position < end else left
