"""An `EvidenceSource` over a fixed list of passages: for tests, and for trying the agent without an index."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from readahead_agents.named_places import named_documents, page_asked
from readahead_agents.text import sentences, words
from readahead_retrieval.types import Citation, Evidence


@dataclass(slots=True)
class FixedEvidenceSource:
    """Finds passages by the share of the query's words that they hold, and cites them by shared words."""

    passages: Sequence[Evidence]
    name: str = "fixed"
    floor: float = 0.2
    """Share of the query's words below which a question is not covered."""
    cite_floor: float = 0.6
    """Share of an answer sentence's words that a passage must hold to support it."""
    queries: list[str] = field(default_factory=list)
    link_hosts: tuple[str, ...] = ()

    async def search(self, query: str, top_k: int | None = None) -> list[Evidence]:
        self.queries.append(query)
        found = [replace(passage, similarity=_share(query, passage.text)) for passage in self.passages]
        found = [passage for passage in found if passage.similarity > 0]
        return sorted(found, key=lambda passage: -passage.similarity)[: top_k or 6]

    async def on_page(self, page: str, question: str) -> list[Evidence]:
        documents = self._named(question)
        return [each for each in self.passages if each.page_label == page and each.document_id in documents]

    def missing_page(self, question: str) -> tuple[str, str] | None:
        names, page = self._named(question), page_asked(question)
        if page is None or len(names) != 1 or page in {p.page_label for p in self.passages if p.document_id in names}:
            return None
        return next(iter(names.values())), page

    async def holding(self, text: str) -> list[Evidence]:
        return [passage for passage in self.passages if text.lower() in passage.text.lower()]

    async def cite(self, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        citations = []
        for start, end in sentences(answer):
            sentence = answer[start:end]
            best = max(evidence, key=lambda passage: _share(sentence, passage.text), default=None)
            if best is not None and (score := _share(sentence, best.text)) >= self.cite_floor:
                citations.append(_citation(best, sentence, score, start, end))
        return citations

    def _named(self, question: str) -> dict[str, str]:
        names = {passage.document_id: passage.document for passage in self.passages}
        return {key: names[key] for key in named_documents(question, names) or names}

    async def nearness(self, question: str, texts: Sequence[str]) -> list[float]:
        return [_share(question, text) for text in texts]

    def covers(self, question: str, evidence: Sequence[Evidence]) -> bool:
        return any(passage.similarity >= self.floor for passage in evidence)


def passage(document: str, page: int, text: str) -> Evidence:
    """A passage of one page, as a search would find it."""
    number = zlib.crc32(f"{document} {page} {text}".encode())
    return Evidence(number, f"doc_{document}", document, page, page, str(page), "", text, 1.0, 1.0)


def _share(text: str, of: str) -> float:
    wanted = words(text)
    return len(wanted & words(of)) / len(wanted) if wanted else 0.0


def _citation(passage: Evidence, sentence: str, score: float, start: int, end: int) -> Citation:
    spans = sentences(passage.text) or [(0, len(passage.text))]
    quote = max((passage.text[s:e] for s, e in spans), key=lambda part: _share(sentence, part))
    quote = re.sub(r"\s+", " ", quote)
    return Citation(
        passage.document_id, passage.document, passage.page, passage.page_label, quote, score, (), start, end
    )
