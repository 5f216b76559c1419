"""What tools of other servers told, as passages that sentences may stand on: under the tool's name, never as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from readahead_agents.answering.passages import NO_PAGE
from readahead_agents.answering.shown_text import plain
from readahead_agents.answering.units import units
from readahead_agents.events import Answered, ToolQuote
from readahead_agents.evidence import EvidenceSource
from readahead_agents.executor import StepResult
from readahead_retrieval.relevance import said_terms
from readahead_retrieval.sentences import sentence_spans
from readahead_retrieval.types import Citation, Evidence

MIN_SHARE = 0.5
"""Of a sentence's words that a statement of a tool must hold to be quoted for it."""
_Passage = TypeVar("_Passage", Evidence, Citation)


def told_passages(steps: Sequence[StepResult]) -> list[Evidence]:
    """One for each result of another server's tool, each text once."""
    texts = dict.fromkeys((step.step.tool, plain(step.result.text)) for step in steps if step.server and step.result)
    return [
        # found on purpose: the plan called this tool for this question
        Evidence(-number, f"tool:{tool}", tool, NO_PAGE, NO_PAGE, "", words, text, score=1.0, similarity=1.0)
        for number, (tool, text) in enumerate(texts, 1)
        for words in [" ".join(tool.split("_"))]  # what it tells is about what it is called
        if text.strip()
    ]


def of_documents(passages: Sequence[_Passage]) -> list[_Passage]:
    """Without what tools told: whoever shows pages knows no other source."""
    return [passage for passage in passages if passage.page != NO_PAGE]


@dataclass(frozen=True, slots=True)
class ToldSource:
    """An `EvidenceSource` whose passages may be what tools told, which is compared by words alone."""

    inner: EvidenceSource

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def link_hosts(self) -> tuple[str, ...]:
        return self.inner.link_hosts

    async def search(self, query: str, top_k: int | None = None) -> list[Evidence]:
        return await self.inner.search(query, top_k)

    async def on_page(self, page: str, question: str) -> list[Evidence]:
        return await self.inner.on_page(page, question)

    def missing_page(self, question: str) -> tuple[str, str] | None:
        return self.inner.missing_page(question)

    async def holding(self, text: str) -> list[Evidence]:
        return await self.inner.holding(text)

    async def cite(self, answer: str, evidence: Sequence[Evidence]) -> list[Citation]:
        documents = of_documents(evidence)
        cited = await self.inner.cite(answer, documents) if documents else []
        told = [passage for passage in evidence if passage.page == NO_PAGE]
        return [*cited, *(citation for passage in told for citation in _quoted(answer, passage))]

    async def nearness(self, question: str, texts: Sequence[str]) -> list[float]:
        return await self.inner.nearness(question, texts)

    def covers(self, question: str, evidence: Sequence[Evidence]) -> bool:
        return self.inner.covers(question, evidence)


def parted(answered: Answered) -> Answered:
    """The answer with citations of documents, and quotes of tools apart."""
    quotes = tuple(
        ToolQuote(cited.document, cited.quote, cited.answer_start, cited.answer_end)
        for cited in answered.citations
        if cited.page == NO_PAGE
    )
    return replace(answered, citations=tuple(of_documents(answered.citations)), tool_quotes=quotes)


def _quoted(answer: str, passage: Evidence) -> list[Citation]:
    """For each sentence of the answer the tool's statement that holds most of its words, where it holds enough."""
    statements, found = units([passage]), list[Citation]()
    for start, end in sentence_spans(answer):
        said = said_terms(answer[start:end])
        if not said:
            continue
        best = max(statements, key=lambda unit: len(said & unit.said))
        share = len(said & (best.said | best.context)) / len(said)
        if share >= MIN_SHARE and said & best.said:
            tool = passage.document
            found.append(Citation(passage.document_id, tool, NO_PAGE, "", best.text, share, (), start, end))
    return found
